#include "app/setting.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace app {
namespace {

std::string Lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// A setting that hands one parsed value to `assign`.
template <class Parse, class Assign>
Setting ValueSetting(std::string name, std::string placeholder, std::string help, Parse parse,
                     Assign assign) {
  Setting setting{.name = name,
                  .synonyms = {},
                  .arity = Setting::Arity::kValue,
                  .placeholder = std::move(placeholder),
                  .help = std::move(help),
                  .apply = {}};
  setting.apply = [name = std::move(name), parse,
                   assign](const std::vector<std::string>& values) -> Result<void> {
    auto parsed = parse("--" + name, values.back());
    if (!parsed) {
      return Fail(parsed.error());
    }
    assign(*parsed);
    return {};
  };
  return setting;
}

}  // namespace

Result<std::int64_t> ParseWhole(std::string_view name, const std::string& text,
                                Range<std::int64_t> range) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value >= range.low &&
      value <= range.high) {
    return value;
  }
  if (range.high == std::numeric_limits<int>::max() ||
      range.high == std::numeric_limits<std::int64_t>::max()) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("{} must be a whole number >= {}, got \"{}\".", name, range.low, text));
  }
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("{} must be a whole number from {} to {}, got \"{}\".", name, range.low,
                          range.high, text));
}

Result<double> ParseNumber(std::string_view name, const std::string& text, Range<double> range) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && std::isfinite(value) &&
      value >= range.low && value <= range.high) {
    return value;
  }
  if (std::isinf(range.high)) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("{} must be a number >= {}, got \"{}\".", name, range.low, text));
  }
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("{} must be a number from {} to {}, got \"{}\".", name, range.low,
                          range.high, text));
}

Result<bool> ParseSwitch(std::string_view name, const std::string& text) {
  static constexpr std::array<std::string_view, 4> kYes = {"true", "yes", "on", "1"};
  static constexpr std::array<std::string_view, 4> kNo = {"false", "no", "off", "0"};
  const std::string word = Lower(text);
  if (std::ranges::find(kYes, word) != kYes.end()) {
    return true;
  }
  if (std::ranges::find(kNo, word) != kNo.end()) {
    return false;
  }
  return Fail(ErrorCode::kInvalidRequest,
              fmt::format("{} must be true or false, got \"{}\".", name, text));
}

Result<std::vector<int>> ParseWholeList(std::string_view name, const std::string& text,
                                        Range<int> range) {
  std::vector<int> values;
  std::size_t start = 0;
  while (start <= text.size()) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    const Result<std::int64_t> value =
        ParseWhole(fmt::format("Each number of {}", name), text.substr(start, comma - start),
                   {.low = range.low, .high = range.high});
    if (!value) {
      return Fail(value.error());
    }
    values.push_back(static_cast<int>(*value));
    start = comma + 1;
  }
  return values;
}

Setting Text(std::string name, std::string placeholder, std::string help, std::string& target) {
  return ValueSetting(
      std::move(name), std::move(placeholder), std::move(help),
      [](const std::string& flag, const std::string& text) -> Result<std::string> {
        if (text.empty()) {
          return Fail(ErrorCode::kInvalidRequest, fmt::format("{} must not be empty.", flag));
        }
        return text;
      },
      [&target](const std::string& value) { target = value; });
}

Setting Whole(std::string name, std::string placeholder, std::string help, int& target,
              Range<int> range) {
  return ValueSetting(
      std::move(name), std::move(placeholder), std::move(help),
      [range](const std::string& flag, const std::string& text) {
        return ParseWhole(flag, text, {.low = range.low, .high = range.high});
      },
      [&target](std::int64_t value) { target = static_cast<int>(value); });
}

Setting Whole(std::string name, std::string placeholder, std::string help, std::int64_t& target,
              Range<std::int64_t> range) {
  return ValueSetting(
      std::move(name), std::move(placeholder), std::move(help),
      [range](const std::string& flag, const std::string& text) {
        return ParseWhole(flag, text, range);
      },
      [&target](std::int64_t value) { target = value; });
}

Setting Whole(std::string name, std::string placeholder, std::string help,
              std::optional<int>& target, Range<int> range) {
  return ValueSetting(
      std::move(name), std::move(placeholder), std::move(help),
      [range](const std::string& flag, const std::string& text) {
        return ParseWhole(flag, text, {.low = range.low, .high = range.high});
      },
      [&target](std::int64_t value) { target = static_cast<int>(value); });
}

Setting Number(std::string name, std::string placeholder, std::string help,
               std::optional<double>& target, Range<double> range) {
  return ValueSetting(
      std::move(name), std::move(placeholder), std::move(help),
      [range](const std::string& flag, const std::string& text) {
        return ParseNumber(flag, text, range);
      },
      [&target](double value) { target = value; });
}

Setting Argument(std::string name, std::string placeholder, std::string help, std::string& target) {
  Setting argument = Text(std::move(name), std::move(placeholder), std::move(help), target);
  argument.arity = Setting::Arity::kPositional;
  return argument;
}

Setting Switch(std::string name, std::string help, bool& target) {
  Setting setting = ValueSetting(std::move(name), {}, std::move(help), &ParseSwitch,
                                 [&target](bool value) { target = value; });
  setting.arity = Setting::Arity::kFlag;
  return setting;
}

}  // namespace app
