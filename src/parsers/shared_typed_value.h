#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace parsers {

// The schema of one parameter of a tool; null when the tool's schema does not name it.
[[nodiscard]] const Json* PropertySchema(const Json& parameters, std::string_view name);

// Does the schema allow strings and nothing else (as one without a type does)?
[[nodiscard]] bool IsStringOnly(const Json* schema);

// Does the schema allow strings, perhaps among others (as one without a type does)?
[[nodiscard]] bool MayBeString(const Json& schema);

// What a text says as a value of the schema, as JSON text: a string stays the string it is where
// the schema allows strings; else a number, boolean, null, list or object of an allowed type. A
// text that is none of what the schema allows stays a string: the call is not lost.
[[nodiscard]] std::string TypedJson(std::string_view text, const Json* schema);

}  // namespace parsers
