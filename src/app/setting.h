#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace app {

// One flag of a command, wherever its value comes from.
struct Setting {
  enum class Arity {
    kFlag,           // --name
    kValue,          // --name VALUE
    kOptionalValue,  // --name [VALUE]
    kRepeated,       // --name VALUE, as often as one likes
    kList,           // --name VALUE...
    kPositional,     // VALUE
  };
  std::string name;      // "max-tokens"
  std::string synonyms;  // CLI11's form, ",-y,--text-only"; usually empty
  Arity arity = Arity::kValue;
  std::string placeholder;  // "TOKENS"
  std::string help;         // empty: not shown
  // Takes the values over: one of a flag ("true" or "false") or value, any number of a list.
  std::function<Result<void>(const std::vector<std::string>&)> apply;
};

// Values as people write them. Errors (kInvalidRequest) name `what` (as --port or as a line of the
// file), the limit and the value.
template <class T>
struct Range {
  T low;
  T high;
};
[[nodiscard]] Result<std::int64_t> ParseWhole(std::string_view name, const std::string& text,
                                              Range<std::int64_t> range);
[[nodiscard]] Result<double> ParseNumber(std::string_view name, const std::string& text,
                                         Range<double> range);
// true, yes, on, 1; false, no, off, 0.
[[nodiscard]] Result<bool> ParseSwitch(std::string_view name, const std::string& text);
// "0,4096"
[[nodiscard]] Result<std::vector<int>> ParseWholeList(std::string_view name,
                                                      const std::string& text, Range<int> range);

// Settings whose target is a plain variable, which must outlive them.
[[nodiscard]] Setting Text(std::string name, std::string placeholder, std::string help,
                           std::string& target);
[[nodiscard]] Setting Whole(std::string name, std::string placeholder, std::string help,
                            int& target, Range<int> range);
[[nodiscard]] Setting Whole(std::string name, std::string placeholder, std::string help,
                            std::int64_t& target, Range<std::int64_t> range);
[[nodiscard]] Setting Whole(std::string name, std::string placeholder, std::string help,
                            std::optional<int>& target, Range<int> range);
[[nodiscard]] Setting Number(std::string name, std::string placeholder, std::string help,
                             std::optional<double>& target, Range<double> range);
// A positional argument.
[[nodiscard]] Setting Argument(std::string name, std::string placeholder, std::string help,
                               std::string& target);
[[nodiscard]] Setting Switch(std::string name, std::string help, bool& target);

}  // namespace app
