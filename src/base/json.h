#pragma once

#include <cstdint>
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

// As ParseJson, for text that a client sent. Json finds a key by looking at those before it, so an
// object costs the square of its members; this refuses what would take longer than a moment: an
// object of more than 7,745 members, or many of some thousands.
[[nodiscard]] Result<Json> ParseClientJson(std::string_view text);

// Comparisons of keys that a client's text may cause: 60 ms.
inline constexpr std::int64_t kMaxKeyComparisons = 30'000'000;

// Compact JSON text; invalid UTF-8 in strings is replaced by U+FFFD, never thrown.
[[nodiscard]] std::string DumpJson(const Json& value);
