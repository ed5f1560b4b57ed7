#pragma once

#include <vector>

#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// `tools` and `tool_choice`: the tools that are shown to the model (none with tool_choice "none").
// Errors: kInvalidRequest; kUnsupported for a forced call.
[[nodiscard]] Result<std::vector<chat::ToolSpec>> ReadTools(FieldReader& fields);

}  // namespace api
