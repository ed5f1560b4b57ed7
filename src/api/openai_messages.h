#pragma once

#include <string>

#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// `messages`, `tools`, `tool_choice` and the template fields of a chat request as a Conversation.
// Errors (kInvalidRequest, kUnsupported) name the field: "`messages[2].content[0].type` ...".
[[nodiscard]] Result<chat::Conversation> ReadConversation(const Json& body);

}  // namespace api
