#include "api/choice_text.h"

#include <algorithm>
#include <utility>

namespace api {

ChoiceText::ChoiceText(const ServedModel& model, const GenerationInput& input,
                       const GenerationOptions& options, int index)
    : eos_ids_(model.eos_ids),
      index_(index),
      detokenizer_(*model.tokenizer,
                   {.skip_special = options.skip_special_tokens,
                    .shown = options.parse_output ? &model.parser_markers : nullptr}),
      stop_(options.stop, options.include_stop_text) {
  if (options.parse_output) {
    parser_ = model.parser_format->make({.tools = input.tools,
                                         .prompt_tail = model.scripted_prompt_tail.empty()
                                                            ? input.prompt_tail
                                                            : model.scripted_prompt_tail});
  }
}

ChoiceEvent ChoiceText::Push(const engine::SampledToken& token,
                             std::optional<scheduler::FinishReason> finish) {
  using scheduler::FinishReason;
  ChoiceEvent event{.index = index_};
  ++token_count_;
  held_tokens_.push_back({.id = token.token, .sampled = token});
  // The end token ends the text and is no part of it, special or not.
  const bool is_end_token =
      finish == FinishReason::kStop && std::ranges::find(eos_ids_, token.token) != eos_ids_.end();
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

}  // namespace api
