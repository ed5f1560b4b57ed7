#include "api/validation.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace api {
namespace {

constexpr std::size_t kLongestValueShown = 60;

// The value as the client wrote it, shortened.
std::string Shown(const Json& value) {
  std::string text = DumpJson(value);
  if (text.size() > kLongestValueShown) {
    text.resize(kLongestValueShown);
    text += "...";
  }
  return text;
}

std::string Describe(const Range& range) {
  std::string text;
  if (std::isfinite(range.min)) {
    text = fmt::format("{} {}", range.above_min ? ">" : ">=", range.min);
  }
  if (std::isfinite(range.max)) {
    text += fmt::format("{}<= {}", text.empty() ? "" : " and ", range.max);
  }
  return text;
}

bool IsNumber(const Json& value) { return value.is_number(); }
bool IsBool(const Json& value) { return value.is_boolean(); }
bool IsString(const Json& value) { return value.is_string(); }
bool IsObject(const Json& value) { return value.is_object(); }
bool IsArray(const Json& value) { return value.is_array(); }

std::int64_t ToInt64(const Json& value) {
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    return number > static_cast<std::uint64_t>(kMax) ? kMax : static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  }
  constexpr double kTwoTo63 = 9223372036854775808.0;
  const auto number = value.get<double>();
  if (number >= kTwoTo63) {
    return kMax;
  }
  return number <= -kTwoTo63 ? kMin : static_cast<std::int64_t>(number);
}

}  // namespace

std::string_view KindOf(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

FieldReader::FieldReader(const Json& object, std::string prefix)
    : object_(object), prefix_(std::move(prefix)) {}

const Json* FieldReader::Find(const char* name) {
  if (error_) {
    return nullptr;
  }
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

const Json* FieldReader::Typed(const char* name, bool (*is_it)(const Json&),
                               std::string_view what) {
  const Json* value = Find(name);
  if (value != nullptr && !is_it(*value)) {
    FailField(name, fmt::format("must be {}, got {}.", what, KindOf(*value)));
    return nullptr;
  }
  return value;
}

bool FieldReader::InRange(const char* name, const Json& value, double number, const Range& range) {
  const bool low = range.above_min ? !(number > range.min) : !(number >= range.min);
  if (low || !(number <= range.max)) {
    FailField(name, fmt::format("must be {}, got {}.", Describe(range), Shown(value)));
    return false;
  }
  return true;
}

std::optional<double> FieldReader::Number(const char* name, const Range& range) {
  const Json* value = Typed(name, &IsNumber, "a number");
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number = value->get<double>();
  return InRange(name, *value, number, range) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> FieldReader::Integer(const char* name, const Range& range) {
  const Json* value = Typed(name, &IsNumber, "an integer");
  if (value == nullptr) {
    return std::nullopt;
  }
  const auto number = value->get<double>();
  if (value->is_number_float() && number != std::floor(number)) {
    FailField(name, fmt::format("must be an integer, got {}.", Shown(*value)));
    return std::nullopt;
  }
  return InRange(name, *value, number, range) ? std::optional(ToInt64(*value)) : std::nullopt;
}

std::optional<bool> FieldReader::Bool(const char* name) {
  const Json* value = Typed(name, &IsBool, "a boolean");
  return value == nullptr ? std::nullopt : std::optional(value->get<bool>());
}

std::optional<std::string> FieldReader::String(const char* name) {
  const Json* value = Typed(name, &IsString, "a string");
  return value == nullptr ? std::nullopt : std::optional(value->get<std::string>());
}

const Json* FieldReader::Object(const char* name) { return Typed(name, &IsObject, "an object"); }

const Json* FieldReader::Array(const char* name) { return Typed(name, &IsArray, "a list"); }

void FieldReader::FailField(std::string_view name, std::string_view rest) {
  const std::string full = prefix_ + std::string(name);
  FailWith({.code = ErrorCode::kInvalidRequest,
            .message = fmt::format("`{}` {}", full, rest),
            .param = full});
}

void FieldReader::FailWith(Error error) {
  if (!error_) {
    error_ = std::move(error);
  }
}

Result<Json> ParseBody(std::string_view body) {
  if (body.empty()) {
    return Fail(ErrorCode::kInvalidRequest,
                "The request has no body; a JSON object is expected there.");
  }
  Result<Json> json = ParseClientJson(body);
  if (json && !json->is_object()) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The request body must be a JSON object, got {}.", KindOf(*json)));
  }
  return json;
}

}  // namespace api
