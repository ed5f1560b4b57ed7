#pragma once

#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace api {

// The error as the protocol of `path` words it: Anthropic's shape below /v1/messages, OpenAI's
// envelope {"error": {message, type, param, code}} everywhere else.
[[nodiscard]] Json ErrorBody(std::string_view path, const Error& error);

// The name of the event that carries such a body in a stream; empty: none.
[[nodiscard]] std::string_view ErrorEventName(std::string_view path);

}  // namespace api
