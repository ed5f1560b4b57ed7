#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_constraint.h"
#include "model_files/model_source.h"

namespace chat {

// Text <-> token ids, by Hugging Face tokenizers (rust/). Immutable and thread-safe.
class Tokenizer {
 public:
  // From tokenizer.json or a GGUF vocabulary. Errors: kBadModel with the library's reason.
  [[nodiscard]] static Result<std::shared_ptr<const Tokenizer>> Load(
      const model_files::TokenizerFiles& files);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  enum class SpecialTokens {
    kParse,   // special tokens written out in the text become their ids: templates, /v1/completions
    kAsText,  // they stay ordinary text
  };
  // `add_special`: also what the tokenizer's post-processor adds (BOS, ...). Templates bring their
  // own BOS.
  [[nodiscard]] Result<std::vector<TokenId>> Encode(std::string_view text, SpecialTokens special,
                                                    bool add_special) const;

  // Encodes a rendered template in which user text is known: `spans` are [begin, end) byte ranges
  // of `text` (sorted, disjoint) in which added tokens stay text (a user who writes <|im_end|> does
  // not end the turn), but for those that are white space only. Everything else parses. Without an
  // added token inside a span the ids are those of Encode.
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  [[nodiscard]] Result<std::vector<TokenId>> EncodeWithPlainSpans(
      std::string_view text, const std::vector<Span>& spans) const;

  // Bytes that token stands for, exactly (byte-level tokens may be part of a character). Empty for
  // ids unknown. Special tokens give their text.
  [[nodiscard]] std::string_view TokenBytes(TokenId token) const;
  [[nodiscard]] bool IsSpecial(TokenId token) const;

  // As transformers' decode: whole list to text, invalid UTF-8 as U+FFFD.
  [[nodiscard]] Result<std::string> Decode(const std::vector<TokenId>& tokens,
                                           bool skip_special) const;

  // Id of a token by its text (also special ones), or -1.
  [[nodiscard]] TokenId Find(std::string_view token_text) const;

  [[nodiscard]] int vocab_size() const;

  // Whether `text` could fit into `context_length` tokens at all, were each the longest there is.
  // To be asked before a client's text is encoded, which takes some 250 bytes of memory for each
  // of its bytes. Texts below 4 MiB always pass. Error: kContextLengthExceeded with both numbers.
  [[nodiscard]] Result<void> CheckLength(std::string_view text, std::int64_t context_length) const;

  // Tokens that are found in a text as a whole, before it is tokenized. `special`: left out when
  // decoding.
  struct AddedToken {
    TokenId id = 0;
    std::string_view text;
    bool special = false;
  };
  [[nodiscard]] const std::vector<AddedToken>& added_tokens() const;

  // Does decoding drop the space that SentencePiece puts before a text's first word?
  [[nodiscard]] bool strips_first_space() const;

  // Opaque handle of the Rust side, for grammar.h.
  [[nodiscard]] const void* handle() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chat
