#pragma once

#include <string_view>

#include "parsers/shared_machine.h"

namespace parsers {

// Gemma's way to write a call: NAME{key:value,...}, strings between two `quote` tokens, everything
// else as in JSON but for the quotes of the keys.
struct BraceCallSyntax {
  std::string_view quote;   // <|"|>
  std::string_view closer;  // <tool_call|>, behind the call
};

// Reads such a call and puts it out whole: where a string ends shows only when the call does.
Task<bool> ReadBraceCall(CallContext& context, const BraceCallSyntax& syntax);

}  // namespace parsers
