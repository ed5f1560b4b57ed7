#include "chat/tools_as_text.h"

#include <algorithm>
#include <utility>

#include "chat/template_variables.h"

namespace chat {
namespace {

constexpr std::string_view kBefore =
    "You can call functions. These are offered, as JSON, between <tools> tags:\n<tools>\n";
constexpr std::string_view kAfter =
    "</tools>\nTo call one, write a JSON object with its name and its arguments between "
    "<tool_call> tags:\n<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"KEY\": \"VALUE\"}}\n"
    "</tool_call>\nThe results come back between <tool_response> tags.";

std::string Description(const std::vector<ToolSpec>& tools) {
  std::string text(kBefore);
  for (const ToolSpec& tool : tools) {
    text += PythonJson(tool.original) + "\n";
  }
  return text += kAfter;
}

// Paragraphs of one text.
std::string Joined(std::string first, std::string_view second) {
  if (!first.empty() && !second.empty()) {
    first += "\n\n";
  }
  return first += second;
}

std::string CallText(const ToolCall& call) {
  const Json object = {{"name", call.name}, {"arguments", call.arguments}};
  return "<tool_call>\n" + PythonJson(object) + "\n</tool_call>";
}

void AppendMessage(Message message, std::vector<Message>& messages, bool& after_result) {
  if (message.role == Role::kTool) {
    const std::string result = "<tool_response>\n" + message.content + "\n</tool_response>";
    if (after_result) {
      messages.back().content.push_back('\n');
      messages.back().content += result;
    } else {
      messages.push_back({.role = Role::kUser, .content = result});
    }
    after_result = true;
    return;
  }
  after_result = false;
  for (const ToolCall& call : std::exchange(message.tool_calls, {})) {
    if (!message.content.empty()) {
      message.content.push_back('\n');
    }
    message.content += CallText(call);
  }
  messages.push_back(std::move(message));
}

bool IsSystem(const Message& message) {
  return message.role == Role::kSystem || message.role == Role::kDeveloper;
}

void AddDescription(const std::string& text, bool knows_system, std::vector<Message>& messages) {
  if (knows_system) {
    if (messages.empty() || !IsSystem(messages.front())) {
      messages.insert(messages.begin(), {.role = Role::kSystem});
    }
    messages.front().content = Joined(std::move(messages.front().content), text);
    return;
  }
  const auto user = std::ranges::find(messages, Role::kUser, &Message::role);
  if (user != messages.end()) {
    user->content = Joined(text, user->content);
  }
}

}  // namespace

bool UsesTools(const Conversation& conversation) {
  return !conversation.tools.empty() ||
         std::ranges::any_of(conversation.messages, [](const Message& message) {
           return message.role == Role::kTool || !message.tool_calls.empty();
         });
}

Conversation WithToolsAsText(const Conversation& conversation, bool knows_system) {
  Conversation result = conversation;
  result.messages.clear();
  result.tools.clear();
  bool after_result = false;
  for (const Message& message : conversation.messages) {
    AppendMessage(message, result.messages, after_result);
  }
  if (!conversation.tools.empty()) {
    AddDescription(Description(conversation.tools), knows_system, result.messages);
  }
  return result;
}

}  // namespace chat
