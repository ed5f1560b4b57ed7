#include "chat/tokenizer.h"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/gguf_tokenizer.h"
#include "chat/rust_call.h"

namespace chat {
namespace {

struct Free {
  void operator()(EbTokenizer* tokenizer) const { eb_tokenizer_free(tokenizer); }
};

// Ids that no token of ours has are passed on as one that is unknown to all.
std::uint32_t ToRust(TokenId token) { return static_cast<std::uint32_t>(token); }

}  // namespace

struct Tokenizer::Impl {
  std::unique_ptr<EbTokenizer, Free> rust;
  std::vector<AddedToken> added;
  int vocab_size = 0;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const model_files::TokenizerFiles& files) {
  std::string from_gguf;
  if (files.gguf.has_value()) {
    Result<std::string> json = GgufTokenizerJson(files);
    if (!json) {
      return Fail(json.error());
    }
    from_gguf = std::move(*json);
  }
  const std::string& json = files.gguf.has_value() ? from_gguf : files.tokenizer_json;
  EbTokenizer* rust = nullptr;
  RustBytes error;
  if (!eb_tokenizer_new(AsText(json), &rust, error.out())) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The tokenizer cannot be used: {}.", error.str()));
  }
  auto impl = std::make_unique<Impl>();
  impl->rust.reset(rust);
  impl->vocab_size = static_cast<int>(eb_tokenizer_size(rust));
  for (TokenId id = 0; id < impl->vocab_size; ++id) {
    std::uint8_t flags = 0;
    const std::string_view text = AsView(eb_tokenizer_token(rust, ToRust(id), &flags));
    if ((flags & EB_TOKEN_ADDED) != 0) {
      impl->added.push_back({.id = id, .text = text, .special = (flags & EB_TOKEN_SPECIAL) != 0});
    }
  }
  return std::shared_ptr<const Tokenizer>(
      new Tokenizer(std::move(impl)));  // NOLINT: private constructor
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, SpecialTokens special,
                                               bool add_special) const {
  const EbSpan whole{.begin = 0, .end = text.size()};
  const std::size_t n_spans = special == SpecialTokens::kAsText && !text.empty() ? 1 : 0;
  RustIds ids;
  RustBytes error;
  if (!eb_tokenizer_encode(impl_->rust.get(), AsText(text), &whole, n_spans, add_special, ids.out(),
                           error.out())) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The text cannot be tokenized: {}.", error.str()));
  }
  return ids.tokens();
}

Result<std::vector<TokenId>> Tokenizer::EncodeWithPlainSpans(std::string_view text,
                                                             const std::vector<Span>& spans) const {
  std::vector<EbSpan> protected_spans;
  protected_spans.reserve(spans.size());
  for (const Span& span : spans) {
    protected_spans.push_back({.begin = span.begin, .end = span.end});
  }
  RustIds ids;
  RustBytes error;
  if (!eb_tokenizer_encode(impl_->rust.get(), AsText(text), protected_spans.data(),
                           protected_spans.size(), /*add_special=*/false, ids.out(), error.out())) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The prompt cannot be tokenized: {}.", error.str()));
  }
  return ids.tokens();
}

std::string_view Tokenizer::TokenBytes(TokenId token) const {
  return AsView(eb_tokenizer_token(impl_->rust.get(), ToRust(token), nullptr));
}

bool Tokenizer::IsSpecial(TokenId token) const {
  std::uint8_t flags = 0;
  (void)eb_tokenizer_token(impl_->rust.get(), ToRust(token), &flags);
  return (flags & EB_TOKEN_SPECIAL) != 0;
}

Result<std::string> Tokenizer::Decode(const std::vector<TokenId>& tokens, bool skip_special) const {
  const std::vector<std::uint32_t> ids(tokens.begin(), tokens.end());
  RustBytes text;
  RustBytes error;
  if (!eb_tokenizer_decode(impl_->rust.get(), ids.data(), ids.size(), skip_special, text.out(),
                           error.out())) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The tokens cannot be decoded: {}.", error.str()));
  }
  return text.str();
}

TokenId Tokenizer::Find(std::string_view token_text) const {
  return static_cast<TokenId>(eb_tokenizer_find(impl_->rust.get(), AsText(token_text)));
}

int Tokenizer::vocab_size() const { return impl_->vocab_size; }

const std::vector<Tokenizer::AddedToken>& Tokenizer::added_tokens() const { return impl_->added; }

bool Tokenizer::strips_first_space() const {
  return eb_tokenizer_strips_first_space(impl_->rust.get());
}

const void* Tokenizer::handle() const { return impl_->rust.get(); }

}  // namespace chat
