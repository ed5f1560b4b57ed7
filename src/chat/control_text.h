#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "chat/tokenizer.h"

namespace chat {

// Finds tokens written out in texts that come from a client: "<|im_end|>" in a user's message must
// not end the turn.
class ControlTokens {
 public:
  explicit ControlTokens(const std::vector<std::string_view>& tokens);

  // The first one at or after `from`, the longest there.
  [[nodiscard]] std::optional<Tokenizer::Span> Find(std::string_view text, std::size_t from) const;

 private:
  [[nodiscard]] std::size_t LengthAt(std::string_view text, std::size_t at) const;

  std::unordered_set<std::string> tokens_;
  std::vector<std::vector<std::size_t>> lengths_;  // by first byte, longest first
};

// Which tokens a client's text may not form. A control token is one that is special, or an added
// token that the template itself writes ("<tool_call>"); added tokens that are only vocabulary
// (Gemma's HTML tags and runs of newlines) stay what they are in any text. In the assistant's own
// messages only special tokens are kept from parsing: what a model wrote in an earlier turn
// ("<think>") is encoded as it was generated.
struct ControlSets {
  ControlTokens all;
  ControlTokens special;
};
[[nodiscard]] ControlSets ControlSetsOf(const Tokenizer& tokenizer,
                                        std::string_view template_source);

// How client text is followed through a template: it is rendered twice, plainly and with each
// control token of client text between two marks (Unicode noncharacters that occur nowhere in the
// client's text). Where the two renderings agree but for the marks and for white space that a mark
// kept from being trimmed, the marks say which bytes came from the client.
struct MarkedVariables {
  Json variables;  // with marks
  std::string open;
  std::string close;
  std::set<std::string> tokens;  // control tokens met in client text; empty: nothing was marked
};
[[nodiscard]] MarkedVariables MarkClientText(const Json& variables, const ControlSets& sets);

// Spans of `text` that the marks in `marked_text` enclose; nothing when the renderings differ
// otherwise.
[[nodiscard]] std::optional<std::vector<Tokenizer::Span>> SpansBetweenMarks(
    std::string_view text, std::string_view marked_text, const MarkedVariables& marks);

// Every place in `text` where one of `tokens` stands: for a template that treats marked text
// otherwise. Its own tokens of that name stay text as well then, which no client can use to forge
// one.
[[nodiscard]] std::vector<Tokenizer::Span> SpansOfTokens(std::string_view text,
                                                         const std::set<std::string>& tokens);

}  // namespace chat
