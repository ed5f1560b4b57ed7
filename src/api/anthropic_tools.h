#pragma once

#include <vector>

#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// `tools` and `tool_choice` of a /v1/messages request: those in the prompt's front, and those with
// defer_loading, which may be called as well. Tools that Anthropic's own servers run (web_search,
// code_execution, ...) are left out with a warning in the log. Faults are recorded in `fields`.
void ReadAnthropicTools(FieldReader& fields, chat::Conversation& conversation,
                        std::vector<chat::ToolSpec>& deferred);

}  // namespace api
