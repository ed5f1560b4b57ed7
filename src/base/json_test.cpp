#include "base/json.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  const Result<Json> value = ParseJson(R"({"b": 1, "a": {"z": 1, "y": 2}})");
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(DumpJson(*value), R"({"b":1,"a":{"z":1,"y":2}})");
}

TEST(Json, RefusesWhatIsNoJson) {
  for (const std::string text :
       {"", "{", "{: 1", "[1,]", "NaN", "[Infinity]", "{\"a\": NaN}", "1e400", "-1e999", "nul",
        "\"\\ud800\"", "\"\xff\"", "{\"a\":\"\xc3\"}", "1 2"}) {
    const Result<Json> value = ParseJson(text);
    ASSERT_FALSE(value.has_value()) << text;
    EXPECT_EQ(value.error().code, ErrorCode::kInvalidRequest);
    EXPECT_FALSE(value.error().message.empty());
    EXPECT_EQ(value.error().message.find("json.exception"), std::string::npos)
        << value.error().message;
  }
}

TEST(Json, AComplaintDoesNotRepeatWhatWasSent) {
  const Result<Json> value = ParseJson("{\"a\": \"" + std::string(1'000'000, 'x'));
  ASSERT_FALSE(value.has_value());
  EXPECT_NE(value.error().message.find("missing closing quote"), std::string::npos);
  EXPECT_LT(value.error().message.size(), 400U);
}

TEST(Json, LimitsTheMembersOfAClientsObjectsWhoseCostIsTheirSquare) {
  const auto object = [](int members) {
    std::string text = "{";
    for (int i = 0; i < members; ++i) {
      text.append(i > 0 ? ",\"" : "\"").append(std::to_string(i)).append("\":0");
    }
    return text.append("}");
  };
  EXPECT_TRUE(ParseClientJson(object(7745)).has_value());
  const Result<Json> large = ParseClientJson(object(7746));
  ASSERT_FALSE(large.has_value());
  EXPECT_NE(large.error().message.find("7746"), std::string::npos) << large.error().message;
  std::string two = "[";
  two.append(object(6000)).append(",").append(object(6000)).append("]");
  EXPECT_FALSE(ParseClientJson(two).has_value());
  EXPECT_TRUE(ParseJson(object(10'000)).has_value()) << "a model's files may have more";
}

TEST(Json, LimitsTheDepth) {
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '[') +
           std::string(static_cast<std::size_t>(depth), ']');
  };
  EXPECT_TRUE(ParseJson(nested(kMaxJsonDepth)).has_value());
  EXPECT_FALSE(ParseJson(nested(kMaxJsonDepth + 1)).has_value());
  EXPECT_FALSE(ParseJson(nested(1000000)).has_value());
  // wide is not deep
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) {
    wide += "[],";
  }
  EXPECT_TRUE(ParseJson(wide + "1]").has_value());
}

TEST(Json, DumpReplacesInvalidUtf8) {
  EXPECT_EQ(DumpJson(Json(std::string("a\xff"
                                      "b"))),
            "\"a\xef\xbf\xbd"
            "b\"");
}

}  // namespace
