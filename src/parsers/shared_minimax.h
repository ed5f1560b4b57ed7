#pragma once

#include "parsers/shared_machine.h"

namespace parsers {

inline constexpr std::string_view kMinimaxMarkers[] = {
    "<minimax:tool_call>", "</minimax:tool_call>", "<think>", "</think>"};

// <minimax:tool_call> with <invoke>s in it; <think>.
[[nodiscard]] const Syntax& MinimaxSyntax();
[[nodiscard]] CallForm MinimaxCalls(const GrammarWriter& grammar);

}  // namespace parsers
