#include "api/responses_reply.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "api/error_body.h"
#include "api/generation_fields.h"
#include "api/overloaded.h"
#include "api/reasoning_seal.h"

namespace api {
namespace {

Json TextPart(const std::string& text) {
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

Json ReasoningPart(const char* type, const std::string& text) {
  return {{"type", type}, {"text", text}};
}

}  // namespace

void ResponseItems::Begin() {
  if (std::exchange(begun_, true)) {
    return;
  }
  for (const char* type : {"response.created", "response.in_progress"}) {
    Emit({{"type", type}, {"response", ResponseJson("in_progress")}});
  }
}

void ResponseItems::OnPrompt(const Usage& /*usage*/) { Begin(); }

void ResponseItems::OnEvent(const ChoiceEvent& event) {
  for (const chat::StreamEvent& delta : event.deltas) {
    Take(delta);
  }
  if (open_ == Item::kReasoning) {
    reasoning_tokens_ += static_cast<std::int64_t>(event.tokens.size());
  }
  if (event.finish) {
    finish_ = event.finish;
    Leave();
  }
}

void ResponseItems::Take(const chat::StreamEvent& delta) {
  std::visit(Overloaded{
                 [&](const chat::TextDelta& d) {
                   if (!d.text.empty()) {
                     Enter(Item::kMessage);
                     text_ += d.text;
                     EmitAt("response.output_text.delta",
                            {{"content_index", 0}, {"delta", d.text}, {"logprobs", Json::array()}});
                   }
                 },
                 [&](const chat::ReasoningDelta& d) {
                   if (d.text.empty()) {
                     return;
                   }
                   Enter(Item::kReasoning);
                   text_ += d.text;
                   EmitAt("response.reasoning_text.delta",
                          {{"content_index", 0}, {"delta", d.text}});
                   if (frame_.shows_summary) {
                     EmitAt("response.reasoning_summary_text.delta",
                            {{"summary_index", 0}, {"delta", d.text}});
                   }
                 },
                 [&](const chat::ToolCallBegin& d) { OpenCall(d); },
                 [&](const chat::ToolArgumentsDelta& d) {
                   text_ += d.fragment;
                   if (!IsCustomCall()) {
                     EmitAt("response.function_call_arguments.delta", {{"delta", d.fragment}});
                   }
                 },
                 [&](const chat::ToolCallEnd&) { Leave(); },
             },
             delta);
}

void ResponseItems::Enter(Item kind) {
  if (open_ == kind) {
    return;
  }
  Leave();
  open_ = kind;
  if (kind == Item::kMessage) {
    Added({{"type", "message"},
           {"id", MakeId("msg_")},
           {"status", "in_progress"},
           {"role", "assistant"},
           {"content", Json::array()}});
    EmitAt("response.content_part.added", {{"content_index", 0}, {"part", TextPart("")}});
    return;
  }
  Added({{"type", "reasoning"},
         {"id", MakeId("rs_")},
         {"status", "in_progress"},
         {"summary", Json::array()},
         {"content", Json::array()}});
  EmitAt("response.content_part.added",
         {{"content_index", 0}, {"part", ReasoningPart("reasoning_text", "")}});
  if (frame_.shows_summary) {
    EmitAt("response.reasoning_summary_part.added",
           {{"summary_index", 0}, {"part", ReasoningPart("summary_text", "")}});
  }
}

void ResponseItems::OpenCall(const chat::ToolCallBegin& call) {
  Leave();
  open_ = Item::kCall;
  const auto found = frame_.tools.find(call.name);
  const ResponsesTool tool =
      found == frame_.tools.end() ? ResponsesTool{.name = call.name} : found->second;
  const bool custom = tool.kind == ResponsesTool::Kind::kCustom;
  Json item = {{"type", custom ? "custom_tool_call" : "function_call"},
               {"id", MakeId(custom ? "ctc_" : "fc_")},
               {"status", "in_progress"},
               {"call_id", call.id},
               {"name", tool.name}};
  if (!tool.name_space.empty()) {
    item["namespace"] = tool.name_space;
  }
  item[custom ? "input" : "arguments"] = "";
  Added(std::move(item));
}

bool ResponseItems::IsCustomCall() const { return item_["type"] == "custom_tool_call"; }

void ResponseItems::Added(Json item) {
  item_ = std::move(item);
  Emit({{"type", "response.output_item.added"}, {"output_index", output_.size()}, {"item", item_}});
}

void ResponseItems::EmitAt(std::string_view type, Json fields) {
  Json event = {{"type", type}, {"item_id", item_["id"]}, {"output_index", output_.size()}};
  event.update(fields);
  Emit(std::move(event));
}

void ResponseItems::Leave() {
  const Item was_open = std::exchange(open_, Item::kNone);
  if (was_open == Item::kNone) {
    return;
  }
  if (was_open == Item::kMessage) {
    LeaveMessage();
  } else if (was_open == Item::kReasoning) {
    LeaveReasoning();
  } else {
    LeaveCall();
  }
  text_.clear();
  item_["status"] = finish_ == scheduler::FinishReason::kLength ? "incomplete" : "completed";
  Emit({{"type", "response.output_item.done"}, {"output_index", output_.size()}, {"item", item_}});
  output_.push_back(std::exchange(item_, nullptr));
}

void ResponseItems::LeaveMessage() {
  EmitAt("response.output_text.done",
         {{"content_index", 0}, {"text", text_}, {"logprobs", Json::array()}});
  EmitAt("response.content_part.done", {{"content_index", 0}, {"part", TextPart(text_)}});
  item_["content"].push_back(TextPart(text_));
}

void ResponseItems::LeaveReasoning() {
  const Json part = ReasoningPart("reasoning_text", text_);
  EmitAt("response.reasoning_text.done", {{"content_index", 0}, {"text", text_}});
  EmitAt("response.content_part.done", {{"content_index", 0}, {"part", part}});
  item_["content"].push_back(part);
  if (frame_.shows_summary) {
    const Json summary = ReasoningPart("summary_text", text_);
    EmitAt("response.reasoning_summary_text.done", {{"summary_index", 0}, {"text", text_}});
    EmitAt("response.reasoning_summary_part.done", {{"summary_index", 0}, {"part", summary}});
    item_["summary"].push_back(summary);
  }
  if (frame_.seals_reasoning) {
    item_["encrypted_content"] = SealReasoning(text_);
  }
}

void ResponseItems::LeaveCall() {
  if (!IsCustomCall()) {
    EmitAt("response.function_call_arguments.done",
           {{"name", item_["name"]}, {"arguments", text_}});
    item_["arguments"] = text_;
    return;
  }
  // The function's one argument; text that max_tokens cut off is handed out as it is.
  const Result<Json> arguments = ParseJson(text_);
  const Json input =
      arguments && arguments->is_object() ? arguments->value("input", Json()) : Json();
  item_["input"] = input.is_string() ? input : Json(text_);
  EmitAt("response.custom_tool_call_input.delta", {{"delta", item_["input"]}});
  EmitAt("response.custom_tool_call_input.done", {{"input", item_["input"]}});
}

Json ResponseItems::ResponseJson(std::string_view status) const {
  Json response = frame_.base;
  response["status"] = status;
  response["output"] = output_;
  return response;
}

Json ResponseItems::Answer(const Usage& usage) {
  const bool is_cut = finish_ == scheduler::FinishReason::kLength;
  Json response = ResponseJson(is_cut ? "incomplete" : "completed");
  if (is_cut) {
    response["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  response["usage"] = {
      {"input_tokens", usage.prompt_tokens},
      {"input_tokens_details", CachedTokensJson(usage)},
      {"output_tokens", usage.completion_tokens},
      {"output_tokens_details",
       {{"reasoning_tokens", std::min(reasoning_tokens_, usage.completion_tokens)}}},
      {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  return response;
}

void ResponseItems::End(Json answer) {
  Begin();
  const std::string type = "response." + answer["status"].get<std::string>();
  Emit({{"type", type}, {"response", std::move(answer)}});
}

void ResponseItems::Fail(const Error& error) {
  const Json body = ErrorBody({}, error)["error"];
  Json response = ResponseJson("failed");
  response["error"] = {{"code", body["code"].is_null() ? body["type"] : body["code"]},
                       {"message", body["message"]}};
  End(std::move(response));
}

void StreamedResponse::OnWaiting() {
  Begin();
  reply_.KeepAlive();
}

void StreamedResponse::Emit(Json event) {
  if (!begun()) {
    reply_.BeginEvents();
  }
  event["sequence_number"] = sequence_number_++;
  reply_.SendNamedEvent(event["type"].get_ref<const std::string&>(), DumpJson(event));
}

}  // namespace api
