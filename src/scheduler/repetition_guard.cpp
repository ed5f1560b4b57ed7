#include "scheduler/repetition_guard.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace scheduler {
namespace {

// Blocks that are longer are told from a text that goes on only after very long.
constexpr std::size_t kMaxPeriod = 256;

}  // namespace

// By the failure function of Knuth, Morris and Pratt (1977) over the reversed end of the reply: a
// prefix of length n whose longest border has length b has the period n - b.
std::optional<Loop> FindLoop(std::span<const TokenId> reply) {
  const std::size_t n = std::min(reply.size(), kMaxPeriod * kMinRepetitions);
  if (n < kMinLoopTokens) {
    return std::nullopt;
  }
  const auto at = [&](std::size_t i) { return reply[reply.size() - 1 - i]; };
  std::vector<std::uint32_t> border(n, 0);
  std::optional<Loop> found;
  for (std::size_t i = 1; i < n; ++i) {
    std::size_t b = border[i - 1];
    while (b > 0 && at(i) != at(b)) {
      b = border[b - 1];
    }
    b += at(i) == at(b) ? 1 : 0;
    border[i] = static_cast<std::uint32_t>(b);
    const std::size_t length = i + 1;
    const std::size_t period = length - b;
    if (length >= kMinLoopTokens && length >= period * kMinRepetitions) {
      found = Loop{.period = period, .length = length};
    }
  }
  return found;
}

}  // namespace scheduler
