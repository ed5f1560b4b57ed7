#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/token_constraint.h"
#include "chat/conversation.h"
#include "chat/stream_event.h"

namespace parsers {

using EventSink = std::function<void(const chat::StreamEvent&)>;

// Turns a model's text, in pieces split anywhere, into events. Whatever the split, the joined
// events are the same; a text that cannot be understood is returned as content, never lost.
class StreamParser {
 public:
  StreamParser() = default;
  StreamParser(const StreamParser&) = delete;
  StreamParser& operator=(const StreamParser&) = delete;
  virtual ~StreamParser() = default;

  // `text`: whole UTF-8 characters.
  virtual void Feed(std::string_view text, const EventSink& emit) = 0;
  // The text has ended; `cut`: by max_tokens, not by the model.
  virtual void Finish(bool cut, const EventSink& emit) = 0;
};

struct ParserOptions {
  std::vector<chat::ToolSpec> tools;
  std::string_view prompt_tail;  // end of the rendered prompt: tells whether a think block is open
};

struct ReasoningTags {
  std::string_view opener;
  std::string_view closer;
};

// A token that no ordinary text is encoded to.
struct SpecialToken {
  TokenId id = 0;
  std::string_view text = {};
};

// What a reply may be: calls, an answer, and before them its reasoning.
struct ReplyRules {
  std::vector<chat::ToolSpec> tools = {};  // that may be called
  bool must_call = false;                  // calls and nothing else; REQUIRES: tools
  bool one_call = false;                   // no more than one
  std::string answer = {};  // an expression of the grammar for the answer; empty: any text
  std::vector<SpecialToken> special_tokens =
      {};                               // of the vocabulary, but for those that end a text
  std::string_view prompt_tail = {};    // as in ParserOptions
  std::string_view chat_template = {};  // tells whether the model reasons
};

class GrammarWriter;  // shared_grammar_writer.h

// How a format writes its calls: OPENER CALL (SEPARATOR CALL)* CLOSER.
struct CallForm {
  // What nothing but calls begins with: a beginning of the opener. Empty: calls stand at the
  // message's beginning only, and only the name of an offered tool tells them from text.
  std::string_view trigger = {};
  std::string_view opener = {};
  std::string_view separator = {};
  std::string_view closer = {};
  bool one_only = false;  // the format has no second call in a message
  // One call of that tool as an expression of the grammar, its arguments valid to the schema.
  // nullptr: the format has no calls.
  std::string (*call)(GrammarWriter& grammar, const chat::ToolSpec& tool) = nullptr;
  // Of formats that frame the whole message: the message as an expression, from those for its
  // calls (may be empty) and its answer.
  std::string (*message)(GrammarWriter& grammar, const std::string& calls,
                         const std::string& answer) = nullptr;
};

// The whole contract of a format's file: parsers/<name>.cpp defines
//   namespace parsers::<file name> { extern constinit const ParserFormat kFormat{...}; }
struct ParserFormat {
  std::string_view name;
  // Other names that the format goes by: those of other servers, of its models.
  std::span<const std::string_view> aliases = {};
  // Special tokens whose text the parser has to see.
  std::span<const std::string_view> markers = {};
  // Is this the wire format of a model with that chat template?
  bool (*matches)(std::string_view chat_template);
  std::unique_ptr<StreamParser> (*make)(const ParserOptions& options);
  // How calls are written, for constrained output.
  CallForm (*calls)(const GrammarWriter& grammar);
  std::span<const ReasoningTags> reasoning = {};
};

// The grammar (llguidance's Lark) of replies that keep the rules in this format. Where any text may
// be the answer and calls are not required, the grammar wakes at the format's trigger: from there
// on a call can only be well-formed. Nothing when the format has no calls and any answer will do.
[[nodiscard]] std::optional<std::string> ReplyGrammar(const ParserFormat& format,
                                                      const ReplyRules& rules);

// Expressions of such a grammar: a JSON value valid to `schema`, a text that a regular expression
// (Rust's regex syntax) matches as a whole, one of `choices` (not empty).
[[nodiscard]] std::string JsonExpression(Json schema);
[[nodiscard]] std::string RegexExpression(std::string_view regex);
[[nodiscard]] std::string ChoiceExpression(const std::vector<std::string>& choices);

// Every format, in file-name order.
[[nodiscard]] std::span<const ParserFormat* const> All();

// By name or alias; nullptr when there is none.
[[nodiscard]] const ParserFormat* FindFormat(std::string_view name);

// The format of a model with that chat template; hermes where none says that it is: the
// prompt then describes the tools itself (chat/tools_as_text.h).
[[nodiscard]] const ParserFormat& FormatOfTemplate(std::string_view chat_template);

}  // namespace parsers
