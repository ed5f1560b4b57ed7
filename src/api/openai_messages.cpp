#include "api/openai_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "api/openai_tools.h"

namespace api {
namespace {

using chat::Role;

struct RoleName {
  std::string_view name;
  Role role;
};
// Of the chat API and of the Responses API.
constexpr std::array<std::string_view, 5> kTextParts = {"text", "input_text", "output_text",
                                                        "reasoning_text", "summary_text"};
constexpr std::array<RoleName, 6> kRoles = {{{"system", Role::kSystem},
                                             {"developer", Role::kDeveloper},
                                             {"user", Role::kUser},
                                             {"assistant", Role::kAssistant},
                                             {"tool", Role::kTool},
                                             {"function", Role::kTool}}};

Role ReadRole(FieldReader& fields) {
  const std::optional<std::string> name = fields.String("role");
  for (const RoleName& known : kRoles) {
    if (name == known.name) {
      return known.role;
    }
  }
  fields.FailField("role",
                   fmt::format("must be one of system, developer, user, assistant, tool, function, "
                               "got {}.",
                               name ? DumpJson(name->substr(0, 40)) : "nothing"));
  return Role::kUser;
}

// The text of one part of a content list. Nothing is ever fetched.
std::string ReadPart(FieldReader& fields, const std::string& name, const Json& part) {
  if (part.is_string()) {
    return part.get<std::string>();
  }
  if (!part.is_object()) {
    fields.FailField(name, fmt::format("must be an object, got {}.", KindOf(part)));
    return {};
  }
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) {
    fields.FailField(name + ".type", "must be a string.");
    return {};
  }
  const std::string kind = type->get<std::string>();
  const bool is_text = std::ranges::find(kTextParts, kind) != kTextParts.end();
  if (!is_text && kind != "refusal") {
    fields.FailField(name + ".type",
                     fmt::format("must be \"text\", got {}: this model takes text only.",
                                 DumpJson(kind.substr(0, 40))));
    return {};
  }
  const auto text = part.find(is_text ? "text" : "refusal");
  if (text == part.end() || !text->is_string()) {
    fields.FailField(name + (is_text ? ".text" : ".refusal"), "must be a string.");
    return {};
  }
  return text->get<std::string>();
}

void ReadCall(const Json& json, const std::string& name, FieldReader& fields,
              chat::Message& message) {
  if (!json.is_object()) {
    fields.FailWith({.code = ErrorCode::kInvalidRequest,
                     .message = fmt::format("`{}` must be an object, got {}.", name, KindOf(json)),
                     .param = name});
    return;
  }
  FieldReader call(json, name + ".");
  chat::ToolCall result;
  result.id = call.String("id").value_or("");
  if (const Json* function = call.Object("function")) {
    FieldReader inner(*function, name + ".function.");
    result.name = inner.String("name").value_or("");
    if (result.name.empty()) {
      inner.FailField("name", "must be the name of the function that was called.");
    }
    result.arguments = ReadArguments(inner);
    if (inner.error()) {
      call.FailWith(*inner.error());
    }
  } else {
    call.FailField("function", "must be an object with name and arguments.");
  }
  if (call.error()) {
    fields.FailWith(*call.error());
  }
  message.tool_calls.push_back(std::move(result));
}

void ReadCalls(FieldReader& fields, const std::string& prefix, chat::Message& message) {
  if (const Json* calls = fields.Array("tool_calls")) {
    for (std::size_t i = 0; i < calls->size(); ++i) {
      ReadCall((*calls)[i], fmt::format("{}tool_calls[{}]", prefix, i), fields, message);
    }
  }
  // The form before tool_calls.
  if (const Json* function = fields.Object("function_call")) {
    ReadCall({{"function", *function}}, prefix + "function_call", fields, message);
  }
}

Result<chat::Message> ReadMessage(const Json& json, std::size_t index) {
  const std::string name = fmt::format("messages[{}]", index);
  if (!json.is_object()) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`{}` must be an object, got {}.", name, KindOf(json)), name);
  }
  FieldReader fields(json, name + ".");
  chat::Message message;
  message.role = ReadRole(fields);
  message.content = ReadText(fields, "content");
  message.name = fields.String("name").value_or("");
  if (message.role == Role::kAssistant) {
    message.reasoning = fields.String("reasoning_content");
    if (!message.reasoning) {
      message.reasoning = fields.String("reasoning");
    }
    ReadCalls(fields, name + ".", message);
  } else if (message.role == Role::kTool) {
    message.tool_call_id = fields.String("tool_call_id").value_or("");
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  return message;
}

// chat_template_kwargs, and the fields of other servers that mean the same.
Json ReadTemplateKwargs(FieldReader& fields) {
  Json kwargs = Json::object();
  if (const auto effort = fields.String("reasoning_effort")) {
    kwargs["reasoning_effort"] = *effort;
  }
  if (const auto thinking = fields.Bool("enable_thinking")) {
    kwargs["enable_thinking"] = *thinking;
  }
  if (const Json* given = fields.Object("chat_template_kwargs")) {
    kwargs.update(*given);
  }
  return kwargs;
}

}  // namespace

std::string ReadText(FieldReader& fields, const char* name) {
  const Json* content = fields.Find(name);
  if (content == nullptr) {
    return {};
  }
  if (content->is_string()) {
    return content->get<std::string>();
  }
  if (!content->is_array()) {
    fields.FailField(name,
                     fmt::format("must be a string or a list of parts, got {}.", KindOf(*content)));
    return {};
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    text += ReadPart(fields, fmt::format("{}[{}]", name, i), (*content)[i]);
  }
  return text;
}

Json ReadArguments(FieldReader& function) {
  const Json* arguments = function.Find("arguments");
  if (arguments == nullptr) {
    return Json::object();
  }
  if (arguments->is_object()) {
    return *arguments;
  }
  if (!arguments->is_string()) {
    function.FailField("arguments", fmt::format("must be a string with a JSON object, got {}.",
                                                KindOf(*arguments)));
    return Json::object();
  }
  const auto& text = arguments->get_ref<const std::string&>();
  if (text.empty()) {
    return Json::object();
  }
  Result<Json> parsed = ParseClientJson(text);
  return parsed && parsed->is_object() ? std::move(*parsed) : *arguments;
}

Result<chat::Conversation> ReadConversation(const Json& body) {
  FieldReader fields(body);
  chat::Conversation conversation;
  const Json* messages = fields.Array("messages");
  if (!fields.error() && (messages == nullptr || messages->empty())) {
    fields.FailField("messages", messages == nullptr
                                     ? "is missing: a list of at least one message is expected."
                                     : "must have at least one message, got an empty list.");
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    Result<chat::Message> message = ReadMessage((*messages)[i], i);
    if (!message) {
      return Fail(message.error());
    }
    conversation.messages.push_back(std::move(*message));
  }
  Result<OfferedTools> offered = ReadTools(fields);
  if (!offered) {
    return Fail(offered.error());
  }
  conversation.tools = std::move(offered->tools);
  conversation.tool_choice = std::move(offered->choice);
  conversation.template_kwargs = ReadTemplateKwargs(fields);
  conversation.continue_final_message = fields.Bool("continue_final_message").value_or(false);
  conversation.add_generation_prompt =
      fields.Bool("add_generation_prompt").value_or(!conversation.continue_final_message);
  if (conversation.continue_final_message &&
      (conversation.messages.back().role != Role::kAssistant ||
       conversation.messages.back().content.empty())) {
    fields.FailField("continue_final_message",
                     "asks to continue the last message, which must be an assistant's with text.");
  }
  if (conversation.continue_final_message && conversation.add_generation_prompt) {
    fields.FailField("continue_final_message",
                     "cannot be true together with `add_generation_prompt`.");
  }
  if (fields.error()) {
    return Fail(*fields.error());
  }
  return conversation;
}

}  // namespace api
