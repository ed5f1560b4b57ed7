#include "chat/template_variables.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace chat {
namespace {

std::string_view RoleName(Role role, const TemplateHabits& habits) {
  switch (role) {
    case Role::kSystem:
      return "system";
    case Role::kDeveloper:
      return habits.knows_developer ? "developer" : "system";
    case Role::kUser:
      return "user";
    case Role::kAssistant:
      return "assistant";
    case Role::kTool:
      return "tool";
  }
  return "user";
}

Json CallToJson(const ToolCall& call, const TemplateHabits& habits) {
  Json json = Json::object();
  if (!call.id.empty()) {
    json["id"] = call.id;
  }
  json["type"] = "function";
  const bool as_text = habits.arguments_as_text && !call.arguments.is_string();
  json["function"] = {{"name", call.name},
                      {"arguments", as_text ? Json(PythonJson(call.arguments)) : call.arguments}};
  return json;
}

// `call_names`: names by id of the calls so far; clients do not repeat the name in a tool's result,
// but some templates print it.
Json MessageToJson(const Message& message, const TemplateHabits& habits,
                   const std::map<std::string, std::string>& call_names) {
  Json json = Json::object();
  json["role"] = RoleName(message.role, habits);
  json["content"] = message.content;
  if (message.reasoning.has_value()) {
    json["reasoning_content"] = *message.reasoning;
    json["thinking"] = *message.reasoning;  // gpt-oss's name for it
  }
  if (!message.tool_calls.empty()) {
    json["tool_calls"] = Json::array();
    for (const ToolCall& call : message.tool_calls) {
      json["tool_calls"].push_back(CallToJson(call, habits));
    }
  }
  if (!message.tool_call_id.empty()) {
    json["tool_call_id"] = message.tool_call_id;
  }
  if (!message.name.empty()) {
    json["name"] = message.name;
  } else if (const auto call = call_names.find(message.tool_call_id);
             message.role == Role::kTool && call != call_names.end()) {
    json["name"] = call->second;
  }
  return json;
}

void AppendPythonJson(const Json& value, std::string& out) {
  if (!value.is_structured()) {
    out += DumpJson(value);
    return;
  }
  std::string_view separator;
  out += value.is_array() ? '[' : '{';
  for (const auto& [key, item] : value.items()) {
    out += separator;
    separator = ", ";
    if (value.is_object()) {
      out += DumpJson(key) + ": ";
    }
    AppendPythonJson(item, out);
  }
  out += value.is_array() ? ']' : '}';
}

}  // namespace

std::string PythonJson(const Json& value) {
  std::string out;
  AppendPythonJson(value, out);
  return out;
}

Json TemplateVariables(const Conversation& conversation, const TemplateHabits& habits,
                       const model_files::TokenizerFiles& files) {
  Json variables = Json::object();
  const std::pair<const char*, const std::string*> special_tokens[] = {
      {"bos_token", &files.bos_token},
      {"eos_token", &files.eos_token},
      {"unk_token", &files.unk_token},
      {"pad_token", &files.pad_token}};
  for (const auto& [name, text] : special_tokens) {
    if (!text->empty()) {
      variables[name] = *text;
    }
  }
  variables["add_generation_prompt"] =
      conversation.add_generation_prompt && !conversation.continue_final_message;
  variables["documents"] = nullptr;
  if (conversation.template_kwargs.is_object()) {
    for (const auto& [name, value] : conversation.template_kwargs.items()) {
      variables[name] = value;
    }
  }
  Json messages = Json::array();
  std::map<std::string, std::string> call_names;
  for (const Message& message : conversation.messages) {
    for (const ToolCall& call : message.tool_calls) {
      call_names[call.id] = call.name;
    }
    messages.push_back(MessageToJson(message, habits, call_names));
  }
  variables["messages"] = std::move(messages);
  variables["tools"] = nullptr;
  for (const ToolSpec& tool : conversation.tools) {
    variables["tools"].push_back(tool.original);
  }
  return variables;
}

Conversation ProbeConversation() {
  Conversation probe;
  const Json function = {
      {"name", "probe"},
      {"description", "A probe."},
      {"parameters", {{"type", "object"}, {"properties", {{kProbeKey, {{"type", "string"}}}}}}}};
  probe.tools.push_back({.name = "probe",
                         .description = "A probe.",
                         .parameters = function["parameters"],
                         .original = {{"type", "function"}, {"function", function}}});
  probe.messages.push_back({.role = Role::kUser, .content = "Probe."});
  // Nine letters and digits: what Mistral's templates ask of an id.
  const std::string id = "probe0001";
  Message call{.role = Role::kAssistant};
  call.tool_calls.push_back({.id = id, .name = "probe", .arguments = {{kProbeKey, "probe_value"}}});
  probe.messages.push_back(std::move(call));
  probe.messages.push_back(
      {.role = Role::kTool, .content = "ok", .tool_call_id = id, .name = "probe"});
  return probe;
}

}  // namespace chat
