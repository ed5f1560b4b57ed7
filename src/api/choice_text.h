#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/call_memory.h"
#include "api/generate.h"
#include "api/stop_matcher.h"
#include "chat/detokenizer.h"
#include "parsers/parser.h"

namespace api {

// One choice on its way from tokens to events: detokenize, match stop strings, parse.
class ChoiceText {
 public:
  ChoiceText(const ServedModel& model, const GenerationInput& input,
             const GenerationOptions& options, int index);

  // Takes the next token; `finish` when it is the last one. Returns the event to emit, which may be
  // without deltas, tokens and finish: then there is nothing to say yet. REQUIRES: !finished().
  [[nodiscard]] ChoiceEvent Push(const engine::SampledToken& token,
                                 std::optional<scheduler::FinishReason> finish);

  // The turn, once it is finished, when it has calls, is as the model ended it and holds nothing
  // that the parser could not see; its prompt is the caller's to add.
  [[nodiscard]] std::optional<WrittenTurn> TakeTurnWithCalls();

  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::int64_t token_count() const { return token_count_; }

 private:
  void Feed(const std::string& text, std::vector<chat::StreamEvent>& deltas);

  void Note(TokenId token);

  const ServedModel& model_;
  int index_;
  chat::Detokenizer detokenizer_;
  StopMatcher stop_;
  std::unique_ptr<parsers::StreamParser> parser_;  // null: all text is content
  std::vector<TokenInfo> held_tokens_;
  std::int64_t token_count_ = 0;
  bool finished_ = false;
  WrittenTurn turn_;
  bool turn_is_whole_ = true;  // all of turn_.tokens went to the parser, and an end token ended it
};

}  // namespace api
