#pragma once

#include <string_view>

#include "base/error.h"

namespace http {

[[nodiscard]] int HttpStatus(ErrorCode code);

// "Not Found", ...
[[nodiscard]] std::string_view ReasonPhrase(int status);

// Seconds for Retry-After, or 0: trying again does not help, or nobody knows when.
[[nodiscard]] int RetryAfterSeconds(ErrorCode code);

}  // namespace http
