#include "api/own_turns.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace api {
namespace {

class PromptWriter {
 public:
  PromptWriter(const ServedModel& model, const chat::RenderedText& rendered,
               const std::vector<chat::ToolSpec>& tools)
      : model_(model), text_(rendered.text), spans_(rendered.client_spans), tools_(tools) {
    for (const TokenId id : model.eos_ids) {
      if (std::ranges::find(model.tokenizer->added_tokens(), id,
                            &chat::Tokenizer::AddedToken::id) !=
          model.tokenizer->added_tokens().end()) {
        end_texts_.push_back(model.tokenizer->TokenBytes(id));
      }
    }
  }

  // Writes all up to the turn and the turn itself; false, and nothing is written, when it does not
  // stand where it was written or says something else.
  Result<bool> Write(const WrittenTurn& turn) {
    if (turn.prompt_bytes < written_.text.size()) {
      return false;
    }
    const std::size_t begin = done_ + turn.prompt_bytes - written_.text.size();
    const std::size_t end = EndOfTurn(begin);
    if (end == std::string_view::npos ||
        !SameMeaning(Parsed(text_.substr(begin, end - begin), text_.substr(0, begin)),
                     turn.reply)) {
      return false;
    }
    const Result<std::vector<TokenId>> before = Encoded(begin);
    if (!before) {
      return Fail(before.error());
    }
    std::vector<TokenId> tokens = written_.tokens;
    tokens.insert(tokens.end(), before->begin(), before->end());
    if (tokens.size() != turn.prompt_tokens || HashOf(tokens) != turn.prompt_hash) {
      return false;
    }
    tokens.insert(tokens.end(), turn.tokens.begin(), turn.tokens.end());
    written_.tokens = std::move(tokens);
    written_.text += text_.substr(done_, begin - done_);
    for (const TokenId token : turn.tokens) {
      written_.text += model_.tokenizer->TokenBytes(token);
    }
    done_ = end;
    return true;
  }

  Result<chat::RenderedPrompt> Rest() && {
    const Result<std::vector<TokenId>> rest = Encoded(text_.size());
    if (!rest) {
      return Fail(rest.error());
    }
    written_.tokens.insert(written_.tokens.end(), rest->begin(), rest->end());
    written_.text += text_.substr(done_);
    return std::move(written_);
  }

 private:
  // What ends a turn is a token that is found before the text is tokenized: so both sides can be
  // encoded on their own. npos: none does.
  std::size_t EndOfTurn(std::size_t begin) const {
    std::size_t end = std::string_view::npos;
    if (begin >= text_.size() || (static_cast<unsigned char>(text_[begin]) & 0xC0U) == 0x80U) {
      return end;  // past the end, or inside a character: another text
    }
    for (const std::string_view ending : end_texts_) {
      std::size_t at = text_.find(ending, begin);
      while (at < end && IsClients(at)) {
        at = text_.find(ending, at + 1);
      }
      end = std::min(end, at);
    }
    return end;
  }

  bool IsClients(std::size_t at) const {
    return std::ranges::any_of(spans_, [at](const chat::Tokenizer::Span& span) {
      return span.begin <= at && at < span.end;
    });
  }

  ParsedReply Parsed(std::string_view text, std::string_view before) const {
    ParsedReply reply;
    const parsers::EventSink take = [&](const chat::StreamEvent& event) { reply.Take(event); };
    const auto parser = MakeParser(
        model_, tools_, before.substr(before.size() - std::min(before.size(), kPromptTailBytes)));
    parser->Feed(text, take);
    parser->Finish(/*cut=*/false, take);
    return reply;
  }

  // The tokens of the text from done_ to `end`.
  Result<std::vector<TokenId>> Encoded(std::size_t end) const {
    std::vector<chat::Tokenizer::Span> inside;
    for (const chat::Tokenizer::Span& span : spans_) {
      if (span.begin < end && span.end > done_) {
        inside.push_back(
            {.begin = std::max(span.begin, done_) - done_, .end = std::min(span.end, end) - done_});
      }
    }
    return model_.tokenizer->EncodeWithPlainSpans(text_.substr(done_, end - done_), inside);
  }

  const ServedModel& model_;
  std::string_view text_;
  const std::vector<chat::Tokenizer::Span>& spans_;
  const std::vector<chat::ToolSpec>& tools_;
  std::vector<std::string_view> end_texts_;
  chat::RenderedPrompt written_;
  std::size_t done_ = 0;  // bytes of text_
};

}  // namespace

Result<chat::RenderedPrompt> EncodeWithOwnTurns(const ServedModel& model,
                                                const chat::RenderedText& rendered,
                                                const std::vector<CallMemory::Turns>& turns,
                                                const std::vector<chat::ToolSpec>& tools) {
  PromptWriter writer(model, rendered, tools);
  for (const CallMemory::Turns& alike : turns) {
    for (const std::shared_ptr<const WrittenTurn>& turn : alike) {
      const Result<bool> written = writer.Write(*turn);
      if (!written) {
        return Fail(written.error());
      }
      if (*written) {
        break;
      }
    }
  }
  return std::move(writer).Rest();
}

}  // namespace api
