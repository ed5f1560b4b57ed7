#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

// Key order is kept: templates print objects in the order in which they were sent.
using Json = nlohmann::ordered_json;

// Parses `text`, refusing NaN, infinities, over-deep nesting (kMaxJsonDepth) and invalid UTF-8. A
// lone surrogate escape is refused too. The error (kInvalidRequest) says at which byte and what was
// expected.
[[nodiscard]] Result<Json> ParseJson(std::string_view text);

inline constexpr int kMaxJsonDepth = 128;

// Compact JSON text; invalid UTF-8 in strings is replaced by U+FFFD, never thrown.
[[nodiscard]] std::string DumpJson(const Json& value);
