#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"

using TokenId = std::int32_t;

// What a request allows its next token to be (a JSON schema, a grammar). One instance a sequence;
// used by the engine thread only. Implemented by chat/grammar.h, asked by the scheduler, which
// knows no text.
class TokenConstraint {
 public:
  TokenConstraint() = default;
  TokenConstraint(const TokenConstraint&) = delete;
  TokenConstraint& operator=(const TokenConstraint&) = delete;
  virtual ~TokenConstraint() = default;

  // One bit a token id, bit i of word i / 32: set when token i may come next. Valid until the next
  // call. End-of-sequence ids are set when the text may end here.
  [[nodiscard]] virtual Result<std::span<const std::uint32_t>> AllowedTokens() = 0;

  // Tells that `token` was sampled.
  [[nodiscard]] virtual Result<void> Accept(TokenId token) = 0;
};
