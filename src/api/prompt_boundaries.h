#pragma once

#include <cstdint>
#include <vector>

#include "api/request_log.h"
#include "base/token_constraint.h"
#include "chat/tokenizer.h"

namespace api {

// Positions of the prompt's tokens at which later prompts are likely to part from it, ascending:
// the beginnings of its last user message (edited, or answered anew) and of its last message (a
// tool's result), as far as they are found. For scheduler::Request::boundaries.
[[nodiscard]] std::vector<std::int64_t> BoundariesOf(const chat::Tokenizer& tokenizer,
                                                     const std::vector<TokenId>& tokens,
                                                     const PromptFacts& facts);

}  // namespace api
