#include "api/normalize.h"

#include <gtest/gtest.h>

namespace api {
namespace {

TEST(Normalizer, KnownFormsAreLeftOut) {
  const Normalizer normalizer;
  for (const char* header :
       {"x-anthropic-billing-header: cc_version=2.1.332.642; cc_entrypoint=sdk-cli;",
        "x-anthropic-billing-header: cc_version=2; cch=11111;\n"}) {
    EXPECT_EQ(normalizer.RuleFor(header), "claude-code: attribution header") << header;
  }
  for (const char* left :
       {"<total_tokens>12345 tokens left</total_tokens>",
        "<total_tokens>Infinite tokens left</total_tokens>\n",
        "<system-reminder>\n<total_tokens>0 tokens left</total_tokens>\n</system-reminder>"}) {
    EXPECT_EQ(normalizer.RuleFor(left), "claude-code: tokens left") << left;
  }
}

TEST(Normalizer, WhatIsAlikeStays) {
  const Normalizer normalizer;
  for (const char* text :
       {"", " ", "x-anthropic-billing-header:", "x-anthropic-billing-header: what is it?",
        "x-anthropic-billing-header: cc_version=2; and then some",
        "x-anthropic-billing-header: =2;",
        "x-anthropic-billing-header: cc_version=2;\nYou are brief.",
        "Explain x-anthropic-billing-header: cc_version=2;",
        "x-anthropic-billing-header: cc_version=2\nYou are brief.;", "12 tokens left",
        "<total_tokens> tokens left</total_tokens>", "<total_tokens>12a tokens left</total_tokens>",
        "<total_tokens>12 tokens left</total_tokens> Go on.",
        "<total_tokens>1 tokens left</total_tokens><total_tokens>2 tokens left</total_tokens>",
        "<system-reminder><total_tokens>12 tokens left</total_tokens>"}) {
    EXPECT_EQ(normalizer.RuleFor(text), "") << text;
  }
}

TEST(Normalizer, IsSwitchedByName) {
  const char* header = "x-anthropic-billing-header: cc_version=2;";
  EXPECT_EQ(Normalizer::Make("off")->RuleFor(header), "");
  EXPECT_NE(Normalizer::Make("auto")->RuleFor(header), "");
  EXPECT_NE(Normalizer::Make("claude-code")->RuleFor(header), "");
  EXPECT_EQ(Normalizer::Make("off")->name(), "off");
  EXPECT_FALSE(Normalizer::Make("claude"));
  EXPECT_FALSE(Normalizer::Make(""));
}

}  // namespace
}  // namespace api
