#pragma once

#include <string>

#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// `messages`, `tools`, `tool_choice` and the template fields of a chat request as a Conversation.
// Errors (kInvalidRequest, kUnsupported) name the field: "`messages[2].content[0].type` ...".
[[nodiscard]] Result<chat::Conversation> ReadConversation(const Json& body);

// The text of the field `name`: a string, a list of parts joined without a separator, or null for
// nothing. Parts that are no text are a fault.
[[nodiscard]] std::string ReadText(FieldReader& fields, const char* name);

// `arguments` of a call: an object where the text is one; else the text as it is (a call that was
// cut off earlier).
[[nodiscard]] Json ReadArguments(FieldReader& function);

}  // namespace api
