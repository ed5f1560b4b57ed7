#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace api {

// A range of numbers that a field may have.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
};

// Every limit of a request field, once.
inline constexpr Range kTemperature{.min = 0, .max = 2};
inline constexpr Range kTopP{.min = 0, .max = 1, .above_min = true};
inline constexpr Range kTopK{.min = -1};
inline constexpr Range kMinP{.min = 0, .max = 1};
inline constexpr Range kPenalty{.min = -2, .max = 2};
inline constexpr Range kRepetitionPenalty{.min = 0, .above_min = true};
inline constexpr Range kLogitBias{.min = -100, .max = 100};
inline constexpr Range kMaxTokens{.min = 1};
inline constexpr Range kChoices{.min = 1, .max = 16};
inline constexpr Range kTopLogprobs{.min = 0, .max = 20};
inline constexpr int kMaxStops = 16;
// Ids of one /detokenize; a million take a second and 150 MB.
inline constexpr std::size_t kMaxDetokenized = 1'000'000;
inline constexpr int kMaxPrompts = 128;  // prompts of one request, times its choices

// "a string", "an object", "null", ...: what a value is, for messages.
[[nodiscard]] std::string_view KindOf(const Json& value);

// Reads the fields of one JSON object. null is the same as absent. The first fault is kept and
// ends all reading: readers then return nothing, and the caller asks error() once at the end.
class FieldReader {
 public:
  // `prefix` precedes names in messages: "stream_options." REQUIRES: object.is_object(), which
  // outlives this.
  explicit FieldReader(const Json& object, std::string prefix = {});

  [[nodiscard]] std::optional<double> Number(const char* name, const Range& range);
  // An integral value, also when written 4.0; clamped to what int64 holds.
  [[nodiscard]] std::optional<std::int64_t> Integer(const char* name, const Range& range);
  [[nodiscard]] std::optional<bool> Bool(const char* name);
  [[nodiscard]] std::optional<std::string> String(const char* name);
  // nullptr when absent.
  [[nodiscard]] const Json* Object(const char* name);
  [[nodiscard]] const Json* Array(const char* name);
  // Of any kind; nullptr when absent or null.
  [[nodiscard]] const Json* Find(const char* name);

  // Records a fault of the field; the sentence's beginning, "`name` ", is added.
  void FailField(std::string_view name, std::string_view rest);
  void FailWith(Error error);

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

 private:
  [[nodiscard]] const Json* Typed(const char* name, bool (*is_it)(const Json&),
                                  std::string_view what);
  [[nodiscard]] bool InRange(const char* name, const Json& value, double number,
                             const Range& range);

  const Json& object_;
  std::string prefix_;
  std::optional<Error> error_;
};

// The body as a JSON object. Errors (kInvalidRequest): bad JSON, or another kind of value.
[[nodiscard]] Result<Json> ParseBody(std::string_view body);

}  // namespace api
