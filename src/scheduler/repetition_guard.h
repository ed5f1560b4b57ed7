#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/token_constraint.h"

namespace scheduler {

// A block of tokens that a reply ends with again and again.
struct Loop {
  std::size_t period = 0;  // tokens of the block
  std::size_t length = 0;  // of all its repetitions
};

// How often a reply is looked at: each time it has grown by so many tokens.
inline constexpr int kLoopCheckTokens = 256;

// The loop that `reply` ends in, if it is one without end: the same block exactly, at least
// kMinRepetitions times over at least kMinLoopTokens tokens. Tables, lists and code repeat
// themselves too, but with other words or numbers in each line, or not for so long.
inline constexpr std::size_t kMinRepetitions = 32;
inline constexpr std::size_t kMinLoopTokens = 2048;
[[nodiscard]] std::optional<Loop> FindLoop(std::span<const TokenId> reply);

}  // namespace scheduler
