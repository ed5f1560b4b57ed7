#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace chat {

// Grammars in llama.cpp's notation (GBNF) for llguidance, which reads Lark.

[[nodiscard]] bool IsGbnf(std::string_view text);

// The same grammar in Lark: rules that do not come back to themselves are terminals, so that what a
// greedy lexer would take from its neighbour stays ambiguous. Error (kInvalidRequest): what is
// wrong and in which line, as the end of a sentence.
[[nodiscard]] Result<std::string> LarkOfGbnf(std::string_view text);

}  // namespace chat
