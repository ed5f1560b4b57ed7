#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parsers/shared_machine.h"

namespace parsers {

struct PythonCall {
  std::string name{};
  Json arguments = Json::object();
};

// `[f(a=1), g()]` or `f(a=1)`: calls with keyword arguments that are Python literals. Nothing when
// it is anything else.
[[nodiscard]] std::optional<std::vector<PythonCall>> ParsePythonCalls(std::string_view text);

// Reads such a list and puts its calls out, all or none; at its bracket.
Task<bool> ReadPythonList(CallContext& context);

// Puts out the calls that `text` is, all or none.
bool PutPythonCalls(CallContext& context, std::string_view text);

}  // namespace parsers
