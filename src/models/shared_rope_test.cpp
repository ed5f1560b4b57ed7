#include "models/shared_rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace {

using models::ReadRope;
using models::RopeOptions;

Json Parse(const std::string& text) { return ParseJson(text).value(); }

TEST(ReadRope, OldAndNewSpellingsGiveTheSameFrequencies) {
  const Json old_config = Parse(
      R"({"rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
          "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
  const Json new_config = Parse(
      R"({"rope_parameters": {"rope_theta": 500000, "rope_type": "llama3", "factor": 8, "low_freq_factor": 1,
          "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
  const auto a = ReadRope(old_config, {.head_dim = 64});
  const auto b = ReadRope(new_config, {.head_dim = 64});
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->inv_freq, b->inv_freq);
  EXPECT_EQ(a->inv_freq.size(), 32U);
  EXPECT_FLOAT_EQ(a->inv_freq[0], 1.0F);
  EXPECT_LT(a->inv_freq[31], std::pow(500000.0F, -62.0F / 64) / 7.9F);
}

TEST(ReadRope, GgufFactorsDivideTheFrequencies) {
  const Json config = Parse(R"({"rope_theta": 10000, "rope_freq_factors": [1, 1, 2, 4]})");
  const auto rope = ReadRope(config, {.head_dim = 8});
  ASSERT_TRUE(rope);
  EXPECT_FLOAT_EQ(rope->inv_freq[1], 0.1F);
  EXPECT_FLOAT_EQ(rope->inv_freq[2], 0.01F / 2);
  EXPECT_FLOAT_EQ(rope->inv_freq[3], 0.001F / 4);
}

// phi-4-mini's spelling, and phi-3's first: the long factors wherever the model was extended.
TEST(ReadRope, LongRopeTakesTheFactorsOfTheModelsContext) {
  for (const char* type : {"longrope", "su", "yarn"}) {
    const auto read = [&](int context) {
      return ReadRope(Parse(R"({"original_max_position_embeddings": 64, "rope_theta": 10000,
                                "max_position_embeddings": )" +
                            std::to_string(context) + R"(, "rope_scaling": {"type": ")" + type +
                            R"(", "short_factor": [1, 1, 1, 2], "long_factor": [2, 4, 8, 16]}})"),
                      {.head_dim = 8});
    };
    const auto extended = read(256);
    const auto plain = read(64);
    ASSERT_TRUE(extended && plain) << type;
    EXPECT_FLOAT_EQ(extended->inv_freq[0], 0.5F);
    EXPECT_FLOAT_EQ(extended->inv_freq[3], 0.001F / 16);
    EXPECT_FLOAT_EQ(extended->attention_factor, std::sqrt(1.0F + std::log(4.0F) / std::log(64.0F)));
    EXPECT_FLOAT_EQ(plain->inv_freq[0], 1.0F);
    EXPECT_FLOAT_EQ(plain->inv_freq[3], 0.001F / 2);
    EXPECT_FLOAT_EQ(plain->attention_factor, 1.0F);
  }
}

TEST(ReadRope, AScalingOfGlobalLayersLeavesLocalOnesAlone) {
  const RopeOptions local{.head_dim = 8,
                          .default_theta = 1e4,
                          .layer_type = "sliding_attention",
                          .theta_key = "rope_local_base_freq",
                          .scaled = false};
  const char* const configs[] = {
      R"({"rope_theta": 1000000, "rope_scaling": {"rope_type": "linear", "factor": 8}})",
      R"({"rope_parameters": {"full_attention": {"rope_theta": 1000000, "rope_type": "linear", "factor": 8},
          "sliding_attention": {"rope_theta": 10000, "rope_type": "default"}}})"};
  for (const char* text : configs) {
    const auto near = ReadRope(Parse(text), local);
    const auto far = ReadRope(Parse(text), {.head_dim = 8});
    ASSERT_TRUE(near && far);
    EXPECT_FLOAT_EQ(near->inv_freq[1], 0.1F);
    EXPECT_FLOAT_EQ(far->inv_freq[0], 1.0F / 8);
    EXPECT_FLOAT_EQ(far->inv_freq[1], std::pow(1e6F, -0.25F) / 8);
  }
}

TEST(ReadRope, ConfigsThatCannotBeMeantAreRefusedByName) {
  struct Wrong {
    const char* config;
    const char* named;
  };
  const Wrong wrongs[] = {
      {R"({"rope_scaling": {"rope_type": "dynamic", "factor": 2}})", "dynamic"},
      {R"({"rope_scaling": {"rope_type": "longrope"}})", "original_max_position_embeddings"},
      {R"({"max_position_embeddings": 64, "rope_scaling": {"rope_type": "longrope",
          "original_max_position_embeddings": 32, "short_factor": [1, 1, 1, 1], "long_factor": [1, 2]}})",
       "long_factor"},
      {R"({"max_position_embeddings": 64, "rope_scaling": {"rope_type": "longrope",
          "original_max_position_embeddings": 32, "long_factor": [1, 2, 0, 3]}})",
       "long_factor"},
      {R"({"rope_scaling": {"rope_type": "linear"}})", "factor"},
      {R"({"rope_scaling": {"rope_type": "linear", "factor": -1}})", "factor"},
      {R"({"rope_scaling": {"rope_type": "yarn", "factor": 4}})",
       "original_max_position_embeddings"},
      {R"({"rope_theta": "big"})", "rope_theta"},
      {R"({"partial_rotary_factor": 0.1})", "RoPE must turn"},
      {R"({"rope_freq_factors": [1, 2]})", "rope_freqs"}};
  for (const Wrong& wrong : wrongs) {
    const auto rope = ReadRope(Parse(wrong.config), {.head_dim = 8});
    ASSERT_FALSE(rope) << wrong.config;
    EXPECT_EQ(rope.error().code, ErrorCode::kBadModel);
    EXPECT_NE(rope.error().message.find(wrong.named), std::string::npos) << rope.error().message;
  }
}

}  // namespace
