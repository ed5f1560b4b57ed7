#include "api/openai_completions_reply.h"

#include <utility>
#include <variant>

#include "api/generation_fields.h"
#include "api/token_logprobs.h"

namespace api {
namespace {

// Appends what a later choice object adds to an earlier one: texts and lists grow, other values
// are replaced unless null.
void Merge(Json& whole, Json&& more) {
  for (auto& [key, value] : more.items()) {
    Json& field = whole[key];
    if (field.is_string() && value.is_string() && key == "text") {
      field.get_ref<std::string&>() += value.get_ref<const std::string&>();
    } else if (field.is_array() && value.is_array() && key != "prompt_token_ids") {
      for (Json& item : value) {
        field.push_back(std::move(item));
      }
    } else if (field.is_object() && value.is_object()) {
      Merge(field, std::move(value));
    } else if (!value.is_null()) {
      field = std::move(value);
    }
  }
}

}  // namespace

CompletionFrame::CompletionFrame(const ServedModel& model, CompletionForm form)
    : model_(model),
      form_(std::move(form)),
      id_(MakeId("cmpl-")),
      created_(UnixNow()),
      started_(form_.prompt_ids.size() * static_cast<std::size_t>(form_.n), false),
      text_offsets_(started_.size(), 0) {}

Json CompletionFrame::Choice(const ChoiceEvent& event) {
  const auto index = static_cast<std::size_t>(event.index);
  const std::size_t prompt = index / static_cast<std::size_t>(form_.n);
  const bool is_first = !started_[index];
  started_[index] = true;
  std::string text;
  if (is_first && !form_.echoes.empty()) {
    text = form_.echoes[prompt];
    text_offsets_[index] = CountCharacters(text);
  }
  for (const chat::StreamEvent& delta : event.deltas) {
    if (const auto* content = std::get_if<chat::TextDelta>(&delta)) {
      text += content->text;
    }
  }
  Json choice = {{"index", event.index}, {"text", std::move(text)}, {"logprobs", nullptr}};
  if (form_.logprobs) {
    choice["logprobs"] = CompletionLogprobs(*model_.tokenizer, event.tokens, text_offsets_[index]);
  }
  if (form_.return_token_ids) {
    choice["prompt_token_ids"] = is_first ? Json(form_.prompt_ids[prompt]) : Json(nullptr);
    choice["token_ids"] = Json::array();
    for (const TokenInfo& token : event.tokens) {
      choice["token_ids"].push_back(token.id);
    }
  }
  choice["finish_reason"] = event.finish ? Json(FinishName(*event.finish)) : Json(nullptr);
  return choice;
}

Json CompletionFrame::Envelope(Json choices) const {
  return {{"id", id_},
          {"object", "text_completion"},
          {"created", created_},
          {"model", model_.name},
          {"choices", std::move(choices)}};
}

StreamedCompletion::StreamedCompletion(CompletionFrame frame, Reply& reply)
    : frame_(std::move(frame)), reply_(reply) {}

void StreamedCompletion::Begin() {
  if (!std::exchange(begun_, true)) {
    reply_.BeginEvents();
  }
}

void StreamedCompletion::OnWaiting() {
  Begin();
  reply_.KeepAlive();
}

void StreamedCompletion::OnEvent(const ChoiceEvent& event) {
  Begin();
  SendHeld(nullptr);
  Json chunk = frame_.Envelope(Json::array({frame_.Choice(event)}));
  if (frame_.form().include_usage) {
    chunk["usage"] = nullptr;
  }
  held_ = std::move(chunk);
  if (!event.finish) {
    SendHeld(nullptr);
  }
}

void StreamedCompletion::SendHeld(const Usage* usage) {
  if (!held_) {
    return;
  }
  if (usage != nullptr) {
    (*held_)["timings"] = TimingsJson(*usage);
  }
  reply_.SendEvent(DumpJson(*held_));
  held_.reset();
}

void StreamedCompletion::End(const Usage& usage) {
  SendHeld(&usage);
  if (frame_.form().include_usage) {
    Json chunk = frame_.Envelope(Json::array());
    chunk["usage"] = UsageJson(usage);
    chunk["timings"] = TimingsJson(usage);
    reply_.SendEvent(DumpJson(chunk));
  }
  reply_.SendEvent("[DONE]");
  reply_.EndEvents();
}

WholeCompletion::WholeCompletion(CompletionFrame frame) : frame_(std::move(frame)) {
  choices_.resize(frame_.n_choices(), Json::object());
}

void WholeCompletion::OnEvent(const ChoiceEvent& event) {
  Merge(choices_[static_cast<std::size_t>(event.index)], frame_.Choice(event));
}

Json WholeCompletion::Answer(const Usage& usage) const {
  Json answer = frame_.Envelope(Json(choices_));
  answer["usage"] = UsageJson(usage);
  answer["timings"] = TimingsJson(usage);
  return answer;
}

}  // namespace api
