#include "api/choice_text.h"

#include <algorithm>
#include <utility>

namespace api {

ChoiceText::ChoiceText(const ServedModel& model, const GenerationInput& input,
                       const GenerationOptions& options, int index)
    : model_(model),
      index_(index),
      detokenizer_(*model.tokenizer,
                   {.skip_special = options.skip_special_tokens,
                    .shown = options.parse_output ? &model.parser_markers : nullptr}),
      stop_(options.stop, options.include_stop_text) {
  if (options.parse_output) {
    parser_ = MakeParser(model, input.tools, input.prompt_tail);
  }
}

ChoiceEvent ChoiceText::Push(const engine::SampledToken& token,
                             std::optional<scheduler::FinishReason> finish) {
  using scheduler::FinishReason;
  ChoiceEvent event{.index = index_};
  ++token_count_;
  held_tokens_.push_back({.id = token.token, .sampled = token});
  // The end token ends the text and is no part of it, special or not.
  const bool is_end_token = finish == FinishReason::kStop &&
                            std::ranges::find(model_.eos_ids, token.token) != model_.eos_ids.end();
  if (!is_end_token) {
    Note(token.token);
  }
  std::string text = is_end_token ? std::string() : detokenizer_.Push(token.token);
  if (finish) {
    text += detokenizer_.Flush();
  }
  StopMatcher::Piece piece = stop_.Push(text);
  if (piece.stopped) {
    finish = FinishReason::kStop;
    event.stop_text = piece.match;
  } else if (finish) {
    piece.text += stop_.Flush();
  }
  Feed(piece.text, event.deltas);
  if (finish) {
    finished_ = true;
    event.finish = finish;
    if (parser_ != nullptr) {
      parser_->Finish(finish == FinishReason::kLength,
                      [&](const chat::StreamEvent& delta) { event.deltas.push_back(delta); });
    }
    turn_is_whole_ = turn_is_whole_ && is_end_token;
  }
  for (const chat::StreamEvent& delta : event.deltas) {
    turn_.reply.Take(delta);
  }
  if (!event.deltas.empty() || finish) {
    event.tokens = std::exchange(held_tokens_, {});
  }
  return event;
}

void ChoiceText::Feed(const std::string& text, std::vector<chat::StreamEvent>& deltas) {
  if (text.empty()) {
    return;
  }
  if (parser_ == nullptr) {
    deltas.emplace_back(chat::TextDelta{.text = text});
    return;
  }
  parser_->Feed(text, [&](const chat::StreamEvent& delta) { deltas.push_back(delta); });
}

void ChoiceText::Note(TokenId token) {
  turn_.tokens.push_back(token);
  const bool is_hidden =
      model_.tokenizer->IsSpecial(token) &&
      std::ranges::find(model_.parser_markers, token) == model_.parser_markers.end();
  turn_is_whole_ = turn_is_whole_ && !is_hidden;
}

std::optional<WrittenTurn> ChoiceText::TakeTurnWithCalls() {
  if (!finished_ || !turn_is_whole_ || turn_.reply.calls.empty()) {
    return std::nullopt;
  }
  return std::move(turn_);
}

}  // namespace api
