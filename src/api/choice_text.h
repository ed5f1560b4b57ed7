#pragma once

#include <memory>
#include <string>
#include <vector>

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

  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::int64_t token_count() const { return token_count_; }

 private:
  void Feed(const std::string& text, std::vector<chat::StreamEvent>& deltas);

  const std::vector<TokenId>& eos_ids_;
  int index_;
  chat::Detokenizer detokenizer_;
  StopMatcher stop_;
  std::unique_ptr<parsers::StreamParser> parser_;  // null: all text is content
  std::vector<TokenInfo> held_tokens_;
  std::int64_t token_count_ = 0;
  bool finished_ = false;
};

}  // namespace api
