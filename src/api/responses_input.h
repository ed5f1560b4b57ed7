#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/openai_tools.h"
#include "api/validation.h"
#include "chat/conversation.h"

namespace api {

// How a tool of a /v1/responses request is called there; the model sees functions only.
struct ResponsesTool {
  enum class Kind { kFunction, kCustom };
  Kind kind = Kind::kFunction;
  std::string name{};
  std::string name_space{};  // of a tool inside a namespace; else empty
};

// The tools by the name under which the model knows them.
using ResponsesTools = std::map<std::string, ResponsesTool>;

// `tools` and `tool_choice` as the model is offered them. A custom tool is a function with the one
// string `input`; tools of a namespace are functions NAMESPACE__NAME; what only OpenAI's servers
// can run is left out with a warning in the log. Faults are recorded in `fields`.
[[nodiscard]] OfferedTools ReadResponsesTools(FieldReader& fields, ResponsesTools& tools);

// `instructions` and the items of `earlier` and `input` (a list of items) as messages: what one
// reply was made of becomes one assistant message again. Errors (kInvalidRequest) name the item.
[[nodiscard]] Result<std::vector<chat::Message>> ReadResponsesItems(const std::string& instructions,
                                                                    const Json& earlier,
                                                                    const Json& input);

}  // namespace api
