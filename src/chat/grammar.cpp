#include "chat/grammar.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chat/rust_call.h"

namespace chat {
namespace {

struct FreeFactory {
  void operator()(EbGrammarFactory* factory) const { eb_grammar_factory_free(factory); }
};
struct FreeGrammar {
  void operator()(EbGrammar* grammar) const { eb_grammar_free(grammar); }
};

class GrammarConstraint final : public TokenConstraint {
 public:
  GrammarConstraint(EbGrammar* grammar, int vocab_size)
      : grammar_(grammar), words_((static_cast<std::size_t>(vocab_size) + 31) / 32) {}

  Result<std::span<const std::uint32_t>> AllowedTokens() override {
    RustBytes error;
    if (!eb_grammar_mask(grammar_.get(), words_.data(), words_.size(), error.out())) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("The constrained output cannot go on: {}.", error.str()));
    }
    return std::span<const std::uint32_t>(words_);
  }

  Result<void> Accept(TokenId token) override {
    RustBytes error;
    if (!eb_grammar_accept(grammar_.get(), static_cast<std::uint32_t>(token), error.out())) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("A token breaks the constraint on the output: {}.", error.str()));
    }
    return {};
  }

 private:
  std::unique_ptr<EbGrammar, FreeGrammar> grammar_;
  std::vector<std::uint32_t> words_;
};

}  // namespace

struct GrammarFactory::Impl {
  std::shared_ptr<const Tokenizer> tokenizer;
  std::vector<TokenId> eos;
  int vocab_size = 0;
  std::mutex mutex;  // guards `factory` while it is made
  std::unique_ptr<EbGrammarFactory, FreeFactory> factory;

  // The same pointer for good, once made.
  Result<const EbGrammarFactory*> Factory() {
    const std::lock_guard lock(mutex);
    if (factory == nullptr) {
      const std::vector<std::uint32_t> ids(eos.begin(), eos.end());
      EbGrammarFactory* made = nullptr;
      RustBytes error;
      if (!eb_grammar_factory_new(static_cast<const EbTokenizer*>(tokenizer->handle()), ids.data(),
                                  ids.size(), static_cast<std::size_t>(vocab_size), &made,
                                  error.out())) {
        return Fail(ErrorCode::kUnsupported,
                    fmt::format("This model's output cannot be constrained: {}.", error.str()));
      }
      factory.reset(made);
    }
    return factory.get();
  }

  // `what` and `param` name it in the error.
  Result<std::unique_ptr<TokenConstraint>> Make(EbGrammarKind kind, std::string_view text,
                                                std::string_view what, std::string_view param) {
    const Result<const EbGrammarFactory*> made = Factory();
    if (!made) {
      return Fail(made.error());
    }
    EbGrammar* grammar = nullptr;
    RustBytes error;
    if (!eb_grammar_new(*made, kind, AsText(text), &grammar, error.out())) {
      return Fail(ErrorCode::kInvalidRequest,
                  fmt::format("The {} cannot be used: {}.", what, error.str()), std::string(param));
    }
    return std::make_unique<GrammarConstraint>(grammar, vocab_size);
  }
};

GrammarFactory::GrammarFactory(std::shared_ptr<const Tokenizer> tokenizer, std::vector<TokenId> eos,
                               int vocab_size)
    : impl_(std::make_unique<Impl>()) {
  impl_->tokenizer = std::move(tokenizer);
  impl_->eos = std::move(eos);
  impl_->vocab_size = vocab_size;
}

GrammarFactory::~GrammarFactory() = default;

Result<std::unique_ptr<TokenConstraint>> GrammarFactory::JsonObject() const {
  return JsonSchema({{"type", "object"}});
}

Result<std::unique_ptr<TokenConstraint>> GrammarFactory::JsonSchema(const Json& schema) const {
  return impl_->Make(EB_GRAMMAR_JSON_SCHEMA, DumpJson(schema), "JSON schema", "response_format");
}

Result<std::unique_ptr<TokenConstraint>> GrammarFactory::Lark(std::string_view text) const {
  return impl_->Make(EB_GRAMMAR_LARK, text, "grammar", "grammar");
}

Result<std::unique_ptr<TokenConstraint>> GrammarFactory::Regex(std::string_view text) const {
  return impl_->Make(EB_GRAMMAR_REGEX, text, "regular expression", "regex");
}

}  // namespace chat
