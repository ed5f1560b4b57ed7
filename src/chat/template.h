#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "chat/conversation.h"
#include "chat/tokenizer.h"
#include "model_files/model_source.h"

namespace chat {

// A rendered conversation, and where it has control tokens that a client wrote: for
// Tokenizer::EncodeWithPlainSpans.
struct RenderedText {
  std::string text;
  std::vector<Tokenizer::Span> client_spans;
};

// The same with its tokens.
struct RenderedPrompt {
  std::string text;
  std::vector<TokenId> tokens;  // of `text`, user text kept from forming special tokens
};

// A model's chat template (Jinja, by minijinja). Immutable and thread-safe.
class ChatTemplate {
 public:
  // `fallback`: used when the files carry no template (`is_fallback()` tells). Errors: kBadModel
  // with the line.
  [[nodiscard]] static Result<std::shared_ptr<const ChatTemplate>> Load(
      const model_files::TokenizerFiles& files, std::string_view fallback,
      std::shared_ptr<const Tokenizer> tokenizer);  // shared: the template encodes what it renders
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  [[nodiscard]] bool is_fallback() const;
  [[nodiscard]] const std::string& source() const;

  // Does it print the tools that it is given?
  [[nodiscard]] bool shows_tools() const;

  // The conversation as this template can show it: where it has nothing for tools, they stand in
  // the text (tools_as_text.h).
  [[nodiscard]] Conversation Adapted(const Conversation& conversation) const;

  // A developer role becomes system where the template has none for it; tool-call arguments are
  // given as mappings or strings, whichever the template prints. Errors (kInvalidRequest): the
  // template's own raise_exception message; kContextLengthExceeded when the text cannot fit
  // `context_length` (Tokenizer::CheckLength).
  [[nodiscard]] Result<RenderedText> RenderText(
      const Conversation& conversation, std::optional<std::int64_t> context_length = {}) const;

  // Renders and encodes.
  [[nodiscard]] Result<RenderedPrompt> Render(
      const Conversation& conversation, std::optional<std::int64_t> context_length = {}) const;

 private:
  struct Impl;
  explicit ChatTemplate(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chat
