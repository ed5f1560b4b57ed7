#include "api/validation.h"

#include <gtest/gtest.h>

namespace api {
namespace {

// The fault that reading a number of the object gives; empty: none.
std::string NumberFault(const char* json, const Range& range) {
  const Json object = ParseJson(json).value();
  FieldReader fields(object);
  static_cast<void>(fields.Number("x", range));
  return fields.error() ? fields.error()->message : "";
}

std::string IntegerFault(const char* json, const Range& range) {
  const Json object = ParseJson(json).value();
  FieldReader fields(object);
  static_cast<void>(fields.Integer("x", range));
  return fields.error() ? fields.error()->message : "";
}

TEST(FieldReader, AFaultNamesFieldLimitAndValue) {
  EXPECT_EQ(NumberFault(R"({"x": 1.5})", kTopP), "`x` must be > 0 and <= 1, got 1.5.");
  EXPECT_EQ(NumberFault(R"({"x": 0})", kTopP), "`x` must be > 0 and <= 1, got 0.");
  EXPECT_EQ(NumberFault(R"({"x": -1})", kTemperature), "`x` must be >= 0 and <= 2, got -1.");
  EXPECT_EQ(IntegerFault(R"({"x": 0})", kMaxTokens), "`x` must be >= 1, got 0.");
  EXPECT_EQ(NumberFault(R"({"x": "hot"})", kTopP), "`x` must be a number, got a string.");
  EXPECT_EQ(NumberFault(R"({"x": true})", kTopP), "`x` must be a number, got a boolean.");
  EXPECT_EQ(IntegerFault(R"({"x": 1.5})", kMaxTokens), "`x` must be an integer, got 1.5.");
  EXPECT_EQ(IntegerFault(R"({"x": [1]})", kMaxTokens), "`x` must be an integer, got a list.");
}

TEST(FieldReader, LimitsThemselvesAreAllowed) {
  EXPECT_EQ(NumberFault(R"({"x": 0})", kTemperature), "");
  EXPECT_EQ(NumberFault(R"({"x": 2})", kTemperature), "");
  EXPECT_EQ(NumberFault(R"({"x": 1})", kTopP), "");
  EXPECT_EQ(IntegerFault(R"({"x": -1})", kTopK), "");
  EXPECT_EQ(IntegerFault(R"({"x": 4.0})", kMaxTokens), "");
}

TEST(FieldReader, NullIsTheSameAsAbsent) {
  const Json object = ParseJson(R"({"a": null})").value();
  FieldReader fields(object);
  EXPECT_FALSE(fields.Number("a", kTopP));
  EXPECT_FALSE(fields.Bool("a"));
  EXPECT_FALSE(fields.String("b"));
  EXPECT_EQ(fields.Object("a"), nullptr);
  EXPECT_FALSE(fields.error());
}

TEST(FieldReader, HugeIntegersAreClamped) {
  const Json object = ParseJson(R"({"a": 1e300, "b": -1e300, "c": 18446744073709551615})").value();
  FieldReader fields(object);
  EXPECT_EQ(fields.Integer("a", {}), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(fields.Integer("b", {}), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(fields.Integer("c", {}), std::numeric_limits<std::int64_t>::max());
}

TEST(FieldReader, TheFirstFaultIsKept) {
  const Json object = ParseJson(R"({"a": "x", "b": 9})").value();
  FieldReader fields(object, "outer.");
  EXPECT_FALSE(fields.Number("a", kTopP));
  EXPECT_FALSE(fields.Number("b", kTopP));
  EXPECT_EQ(fields.error()->param, "outer.a");
}

TEST(ParseBody, OnlyAnObjectWillDo) {
  for (const char* body : {"", "[]", "5", "\"x\"", "true", "null", "{", "{\"a\": NaN}",
                           "{\"a\": 1e400}", "{\"a\": Infinity}", "{\"a\": \"\xff\"}"}) {
    const Result<Json> json = ParseBody(body);
    ASSERT_FALSE(json) << body;
    EXPECT_EQ(json.error().code, ErrorCode::kInvalidRequest);
  }
  EXPECT_EQ(ParseBody("[]").error().message, "The request body must be a JSON object, got a list.");
  EXPECT_TRUE(ParseBody("{}"));
}

}  // namespace
}  // namespace api
