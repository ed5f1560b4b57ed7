#pragma once

#include <vector>

#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// The tools that are shown to the model (none with tool_choice "none") and which it may call.
struct OfferedTools {
  std::vector<chat::ToolSpec> tools = {};
  chat::ToolChoice choice = {};
};

// `tools`, `tool_choice` and `parallel_tool_calls`. Errors: kInvalidRequest.
[[nodiscard]] Result<OfferedTools> ReadTools(FieldReader& fields);

}  // namespace api
