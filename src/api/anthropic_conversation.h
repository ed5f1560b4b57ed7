#pragma once

#include <string>
#include <vector>

#include "api/normalize.h"
#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

struct AnthropicConversation {
  chat::Conversation conversation;
  // Tools with defer_loading: not in the prompt's front, which so stays the same when a session
  // loads more; rendered where a tool_reference names them, and callable.
  std::vector<chat::ToolSpec> deferred_tools;
  std::vector<std::string> left_out;  // rules of the normaliser by which texts were
};

// `system`, `messages`, `tools`, `tool_choice` and `thinking` of a /v1/messages request. What does
// not belong to the prompt (cache_control, what `normalizer` leaves out) leaves no trace in it: a
// string and a list of one text block are the same. Roles "system" inside the messages stay in
// their place. Errors (kInvalidRequest, kUnsupported) name the field.
[[nodiscard]] Result<AnthropicConversation> ReadAnthropicConversation(const Json& body,
                                                                      const Normalizer& normalizer);

}  // namespace api
