#include "api/openai_chat_reply.h"

#include <utility>
#include <variant>

#include "api/generation_fields.h"
#include "api/overloaded.h"
#include "api/token_logprobs.h"

namespace api {
namespace {

// A chunk's `delta`; null when the event has nothing to send.
Json DeltaJson(const chat::StreamEvent& event) {
  return std::visit(
      Overloaded{
          [](const chat::TextDelta& d) { return Json{{"content", d.text}}; },
          [](const chat::ReasoningDelta& d) {
            return Json{{"reasoning_content", d.text}, {"reasoning", d.text}};
          },
          [](const chat::ToolCallBegin& d) {
            return Json{{"tool_calls",
                         Json::array({{{"index", d.index},
                                       {"id", d.id},
                                       {"type", "function"},
                                       {"function", {{"name", d.name}, {"arguments", ""}}}}})}};
          },
          [](const chat::ToolArgumentsDelta& d) {
            return Json{{"tool_calls", Json::array({{{"index", d.index},
                                                     {"function", {{"arguments", d.fragment}}}}})}};
          },
          [](const chat::ToolCallEnd&) { return Json(nullptr); },
      },
      event);
}

const char* FinishOf(scheduler::FinishReason reason, bool has_call) {
  return has_call && reason == scheduler::FinishReason::kStop ? "tool_calls" : FinishName(reason);
}

}  // namespace

StreamedChat::StreamedChat(ChatFrame frame, Reply& reply)
    : frame_(std::move(frame)),
      reply_(reply),
      has_call_(static_cast<std::size_t>(frame_.form.n), false) {}

Json StreamedChat::Chunk(Json choices) const {
  Json chunk = {{"id", frame_.id},
                {"object", "chat.completion.chunk"},
                {"created", frame_.created},
                {"model", frame_.model.name},
                {"choices", std::move(choices)}};
  if (frame_.form.include_usage) {
    chunk["usage"] = nullptr;
  }
  return chunk;
}

void StreamedChat::SendChunk(Json choice) {
  reply_.SendEvent(DumpJson(Chunk(Json::array({std::move(choice)}))));
}

void StreamedChat::Begin() {
  if (std::exchange(begun_, true)) {
    return;
  }
  reply_.BeginEvents();
  for (int index = 0; index < frame_.form.n; ++index) {
    SendChunk({{"index", index},
               {"delta", {{"role", "assistant"}, {"content", ""}}},
               {"logprobs", nullptr},
               {"finish_reason", nullptr}});
  }
}

void StreamedChat::OnWaiting() {
  Begin();
  reply_.KeepAlive();
}

void StreamedChat::OnEvent(const ChoiceEvent& event) {
  Begin();
  SendClosing(nullptr);
  Json logprobs = frame_.form.logprobs && !event.tokens.empty()
                      ? Json{{"content", ChatLogprobs(*frame_.model.tokenizer, event.tokens)}}
                      : Json(nullptr);
  for (const chat::StreamEvent& delta : event.deltas) {
    if (std::holds_alternative<chat::ToolCallBegin>(delta)) {
      has_call_[static_cast<std::size_t>(event.index)] = true;
    }
    if (Json json = DeltaJson(delta); !json.is_null()) {
      SendChunk({{"index", event.index},
                 {"delta", std::move(json)},
                 {"logprobs", std::exchange(logprobs, nullptr)},
                 {"finish_reason", nullptr}});
    }
  }
  if (event.finish) {
    closing_ = Json{{"index", event.index},
                    {"delta", Json::object()},
                    {"logprobs", std::move(logprobs)},
                    {"finish_reason",
                     FinishOf(*event.finish, has_call_[static_cast<std::size_t>(event.index)])}};
  }
}

void StreamedChat::SendClosing(const Usage* usage) {
  if (!closing_) {
    return;
  }
  Json chunk = Chunk(Json::array({std::move(*closing_)}));
  closing_.reset();
  if (usage != nullptr) {
    chunk["timings"] = TimingsJson(*usage);
  }
  reply_.SendEvent(DumpJson(chunk));
}

void StreamedChat::End(const Usage& usage) {
  SendClosing(&usage);
  if (frame_.form.include_usage) {
    Json chunk = Chunk(Json::array());
    chunk["usage"] = UsageJson(usage);
    chunk["timings"] = TimingsJson(usage);
    reply_.SendEvent(DumpJson(chunk));
  }
  reply_.SendEvent("[DONE]");
  reply_.EndEvents();
}

WholeChat::WholeChat(ChatFrame frame)
    : frame_(std::move(frame)), choices_(static_cast<std::size_t>(frame_.form.n)) {}

void WholeChat::Take(Choice& choice, const chat::StreamEvent& delta) {
  std::visit(
      Overloaded{
          [&](const chat::TextDelta& d) { choice.content += d.text; },
          [&](const chat::ReasoningDelta& d) { choice.reasoning += d.text; },
          [&](const chat::ToolCallBegin& d) {
            choice.tool_calls.push_back({{"id", d.id},
                                         {"type", "function"},
                                         {"function", {{"name", d.name}, {"arguments", ""}}}});
          },
          [&](const chat::ToolArgumentsDelta& d) {
            const auto index = static_cast<std::size_t>(d.index);
            choice.tool_calls.at(index)["function"]["arguments"].get_ref<std::string&>() +=
                d.fragment;
          },
          [](const chat::ToolCallEnd&) {},
      },
      delta);
}

void WholeChat::OnEvent(const ChoiceEvent& event) {
  Choice& choice = choices_[static_cast<std::size_t>(event.index)];
  for (const chat::StreamEvent& delta : event.deltas) {
    Take(choice, delta);
  }
  if (frame_.form.logprobs) {
    for (Json& entry : ChatLogprobs(*frame_.model.tokenizer, event.tokens)) {
      choice.logprobs.push_back(std::move(entry));
    }
  }
  if (event.finish) {
    choice.finish = event.finish;
  }
}

Json WholeChat::Answer(const Usage& usage) const {
  Json choices = Json::array();
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const Choice& choice = choices_[i];
    const bool has_call = !choice.tool_calls.empty();
    const bool has_more = has_call || !choice.reasoning.empty();
    Json message = {{"role", "assistant"}, {"content", choice.content}};
    if (choice.content.empty() && has_more) {
      message["content"] = nullptr;
    }
    if (!choice.reasoning.empty()) {
      message["reasoning_content"] = choice.reasoning;
      message["reasoning"] = choice.reasoning;  // another name that clients look for
    }
    if (has_call) {
      message["tool_calls"] = choice.tool_calls;
    }
    choices.push_back(
        {{"index", i},
         {"message", std::move(message)},
         {"logprobs", frame_.form.logprobs ? Json{{"content", choice.logprobs}} : Json(nullptr)},
         {"finish_reason",
          FinishOf(choice.finish.value_or(scheduler::FinishReason::kStop), has_call)}});
  }
  return {{"id", frame_.id},
          {"object", "chat.completion"},
          {"created", frame_.created},
          {"model", frame_.model.name},
          {"choices", std::move(choices)},
          {"usage", UsageJson(usage)},
          {"timings", TimingsJson(usage)}};
}

}  // namespace api
