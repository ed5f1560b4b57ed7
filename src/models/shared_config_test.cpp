#include "models/shared_config.h"

#include <gtest/gtest.h>

#include <string>

#include "models/shared_layers.h"

namespace {

using models::ConfigReader;

Json Parse(const std::string& text) { return ParseJson(text).value(); }

TEST(ConfigReader, MissingAndNullFieldsTakeTheirFallback) {
  const Json config = Parse(R"({"a": null, "b": 3})");
  ConfigReader reader(config);
  EXPECT_EQ(reader.Size("a", 7), 7);
  EXPECT_EQ(reader.Size("none", 8), 8);
  EXPECT_EQ(reader.Size("b", 9), 3);
  EXPECT_FALSE(reader.Flag("a", false));
  EXPECT_EQ(reader.Text("a", "x"), "x");
  EXPECT_TRUE(reader.Check());
}

TEST(ConfigReader, TheFirstMistakeIsReportedWithFieldAndValue) {
  const char* const configs[] = {R"({"n": 0})",
                                 R"({"n": -4})",
                                 R"({"n": 1.5})",
                                 R"({"n": "8"})",
                                 R"({"n": 1e12})",
                                 R"({"n": [1]})",
                                 "{}"};
  for (const char* text : configs) {
    const Json config = Parse(text);
    ConfigReader reader(config);
    (void)reader.Size("n");
    (void)reader.Size("also_missing");
    const Result<void> checked = reader.Check();
    ASSERT_FALSE(checked) << text;
    EXPECT_EQ(checked.error().code, ErrorCode::kBadModel);
    EXPECT_NE(checked.error().message.find("`n`"), std::string::npos) << checked.error().message;
  }
}

TEST(ConfigReader, ZeroFalseAndNullAreNotSet) {
  const Json config = Parse(R"({"a": 0, "b": false, "c": null, "d": 30.0, "e": true})");
  const ConfigReader reader(config);
  for (const char* key : {"a", "b", "c", "none"}) {
    EXPECT_FALSE(reader.IsSet(key)) << key;
  }
  EXPECT_TRUE(reader.IsSet("d"));
  EXPECT_TRUE(reader.IsSet("e"));
}

TEST(LayerWindows, ListedTypesComeBeforeThePattern) {
  const Json listed = Parse(R"({"layer_types": ["full_attention", "sliding_attention"]})");
  ConfigReader reader(listed);
  const auto never_full = [](int) { return false; };
  EXPECT_EQ(models::LayerWindows(listed, reader, 2, 32, never_full), (std::vector<int>{0, 32}));
  EXPECT_EQ(
      models::LayerWindows(Json::object(), reader, 3, 32, [](int layer) { return layer == 1; }),
      (std::vector<int>{32, 0, 32}));
  EXPECT_TRUE(reader.Check());
  (void)models::LayerWindows(listed, reader, 3, 32, never_full);
  EXPECT_FALSE(reader.Check());
}

TEST(LayerWindows, ACountThatNoModelHasIsRefusedBeforeAListOfThatLength) {
  const Json none = Json::object();
  ConfigReader reader(none);
  EXPECT_TRUE(
      models::LayerWindows(none, reader, 2'000'000'000, 32, [](int) { return true; }).empty());
  const Result<void> checked = reader.Check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("2000000000"), std::string::npos);
}

TEST(CheckHeads, AProductThatOverflowsIsRefused) {
  const Json none = Json::object();
  ConfigReader reader(none);
  models::CheckHeads(reader, 65'536, 65'536, 65'536);  // 0 in 32 bits
  const Result<void> checked = reader.Check();
  ASSERT_FALSE(checked);
  EXPECT_NE(checked.error().message.find("65536 times 65536"), std::string::npos);
}

TEST(GroupLayers, FullLayersComeFirstAndEachWindowIsAGroup) {
  const std::vector<ops::LayerGroup> groups = models::GroupLayers({32, 32, 0, 32, 64});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].layers, (std::vector<int>{2}));
  EXPECT_EQ(groups[0].window, 0);
  EXPECT_EQ(groups[1].layers, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(groups[2].window, 64);
}

}  // namespace
