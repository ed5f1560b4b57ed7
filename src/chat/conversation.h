#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace chat {

enum class Role { kSystem, kDeveloper, kUser, kAssistant, kTool };

struct ToolCall {
  std::string id{};
  std::string name{};
  Json arguments =
      Json::object();  // an object, or a string where the client sent text that is no JSON object
};

// One message, protocol-neutral. Text parts are joined without a separator; there are no images
// yet.
struct Message {
  Role role = Role::kUser;
  std::string content{};
  std::optional<std::string> reasoning{};  // reasoning_content the client sent back
  std::vector<ToolCall> tool_calls{};      // assistant
  std::string tool_call_id{};              // tool
  std::string name{};                      // tool or user name; may be empty
};

struct ToolSpec {
  std::string name{};
  std::string description{};
  Json parameters{};    // JSON schema; null when the client sent none
  bool strict = false;  // its arguments must fit the schema exactly
  Json original{};      // the tool as an OpenAI-style object, which templates print
};

// Which of the tools the reply may or must call.
struct ToolChoice {
  bool must_call = false;
  bool one_call = false;             // no more than one
  std::vector<std::string> names{};  // these only; empty: any
};

struct Conversation {
  std::vector<Message> messages{};  // not empty
  std::vector<ToolSpec> tools{};
  ToolChoice tool_choice{};
  Json template_kwargs = Json::object();  // chat_template_kwargs: enable_thinking, ...
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the last assistant message is left open
};

}  // namespace chat
