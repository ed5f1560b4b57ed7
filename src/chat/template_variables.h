#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "chat/conversation.h"
#include "model_files/model_source.h"

namespace chat {

// What differs from template to template in the messages that it takes.
struct TemplateHabits {
  bool arguments_as_text = false;  // prints tool-call arguments as they are: they must be JSON text
  bool knows_developer = false;    // has a developer role
  bool knows_system = true;        // prints system messages
  bool shows_tools = true;         // prints tools or calls
};

// The variables of a chat template, as transformers' apply_chat_template names and fills them.
[[nodiscard]] Json TemplateVariables(const Conversation& conversation, const TemplateHabits& habits,
                                     const model_files::TokenizerFiles& files);

// JSON as Python's json.dumps writes it (", " and ": "): how tool calls look in a model's training
// data.
[[nodiscard]] std::string PythonJson(const Json& value);

// A conversation with one tool call, to see what a template does with the arguments; kProbeKey is
// in them.
[[nodiscard]] Conversation ProbeConversation();
inline constexpr std::string_view kProbeKey = "probe_key";

}  // namespace chat
