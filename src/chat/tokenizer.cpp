#include "chat/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
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

// Texts from here on are encoded one after the other: see CheckLength for the memory they take.
constexpr std::size_t kLargeText = 1U << 20U;
// Up to here a prompt that is too long is counted exactly, as clients want to know by how much; 1
// GB of memory for a moment.
constexpr std::size_t kAlwaysCounted = 4U << 20U;

EbTokenizer* NewFromGguf(const GgufTokenizer& gguf, RustBytes& error) {
  std::vector<EbText> tokens;
  tokens.reserve(gguf.tokens.size());
  for (const std::string& token : gguf.tokens) {
    tokens.push_back(AsText(token));
  }
  std::vector<EbText> merges;
  merges.reserve(2 * gguf.merges.size());
  for (const auto& [left, right] : gguf.merges) {
    merges.push_back(AsText(left));
    merges.push_back(AsText(right));
  }
  EbTokenizer* rust = nullptr;
  (void)eb_tokenizer_new_bpe(AsText(gguf.json), tokens.data(), tokens.size(), merges.data(),
                             gguf.merges.size(), &rust, error.out());
  return rust;
}

// Ids that no token of ours has are passed on as one that is unknown to all.
std::uint32_t ToRust(TokenId token) { return static_cast<std::uint32_t>(token); }

}  // namespace

struct Tokenizer::Impl {
  std::unique_ptr<EbTokenizer, Free> rust;
  std::vector<AddedToken> added;
  int vocab_size = 0;
  std::size_t longest_token_bytes = 1;
  mutable std::mutex large_text;  // held while one is encoded

  [[nodiscard]] Result<std::vector<TokenId>> Encode(std::string_view text,
                                                    std::span<const EbSpan> spans,
                                                    bool add_special) const;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::Load(const model_files::TokenizerFiles& files) {
  EbTokenizer* rust = nullptr;
  RustBytes error;
  if (files.gguf.has_value()) {
    const Result<GgufTokenizer> gguf = MakeGgufTokenizer(files);
    if (!gguf) {
      return Fail(gguf.error());
    }
    rust = NewFromGguf(*gguf, error);
  } else {
    (void)eb_tokenizer_new(AsText(files.tokenizer_json), &rust, error.out());
  }
  if (rust == nullptr) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The tokenizer cannot be used: {}.", error.str()));
  }
  auto impl = std::make_unique<Impl>();
  impl->rust.reset(rust);
  for (const std::string& bytes : files.extra_tokens) {
    eb_tokenizer_append(rust, AsText(bytes));
  }
  impl->vocab_size = static_cast<int>(eb_tokenizer_size(rust));
  for (TokenId id = 0; id < impl->vocab_size; ++id) {
    std::uint8_t flags = 0;
    const std::string_view text = AsView(eb_tokenizer_token(rust, ToRust(id), &flags));
    impl->longest_token_bytes = std::max(impl->longest_token_bytes, text.size());
    if ((flags & EB_TOKEN_ADDED) != 0) {
      impl->added.push_back({.id = id, .text = text, .special = (flags & EB_TOKEN_SPECIAL) != 0});
    }
  }
  return std::shared_ptr<const Tokenizer>(
      new Tokenizer(std::move(impl)));  // NOLINT: private constructor
}

Result<std::vector<TokenId>> Tokenizer::Impl::Encode(std::string_view text,
                                                     std::span<const EbSpan> spans,
                                                     bool add_special) const {
  std::unique_lock lock(large_text, std::defer_lock);
  if (text.size() >= kLargeText) {
    lock.lock();
  }
  RustIds ids;
  RustBytes error;
  if (!eb_tokenizer_encode(rust.get(), AsText(text), spans.data(), spans.size(), add_special,
                           ids.out(), error.out())) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The text cannot be tokenized: {}.", error.str()));
  }
  return ids.tokens();
}

Result<std::vector<TokenId>> Tokenizer::Encode(std::string_view text, SpecialTokens special,
                                               bool add_special) const {
  const EbSpan whole{.begin = 0, .end = text.size()};
  const std::size_t n_spans = special == SpecialTokens::kAsText && !text.empty() ? 1 : 0;
  return impl_->Encode(text, std::span(&whole, n_spans), add_special);
}

Result<std::vector<TokenId>> Tokenizer::EncodeWithPlainSpans(std::string_view text,
                                                             const std::vector<Span>& spans) const {
  std::vector<EbSpan> protected_spans;
  protected_spans.reserve(spans.size());
  for (const Span& span : spans) {
    protected_spans.push_back({.begin = span.begin, .end = span.end});
  }
  return impl_->Encode(text, protected_spans, /*add_special=*/false);
}

Result<void> Tokenizer::CheckLength(std::string_view text, std::int64_t context_length) const {
  const std::size_t longest = impl_->longest_token_bytes;
  const auto at_least = static_cast<std::int64_t>((text.size() + longest - 1) / longest);
  if (at_least <= context_length || text.size() <= kAlwaysCounted) {
    return {};
  }
  return Fail(ErrorCode::kContextLengthExceeded,
              fmt::format("This model's maximum context length is {} tokens. However, your text of "
                          "{} bytes is at least {} tokens.",
                          context_length, text.size(), at_least));
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
