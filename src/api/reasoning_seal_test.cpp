#include "api/reasoning_seal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace api {
namespace {

RC_GTEST_PROP(ReasoningSeal, WhatIsSealedComesBack, (const std::string& text)) {
  RC_ASSERT(UnsealReasoning(SealReasoning(text)) == text);
}

TEST(ReasoningSeal, SignaturesOfOthersHoldNoText) {
  for (const char* signature : {"", "EqQBCkYIAxgCKkA", "emberbank1.?", "emberbank1.abc"}) {
    EXPECT_EQ(UnsealReasoning(signature), std::nullopt) << signature;
  }
}

TEST(ReasoningSeal, IsOneLineOfPlainCharacters) {
  const std::string sealed = SealReasoning(std::string(1000, '\n'));
  EXPECT_EQ(sealed.find_first_of("\n\" \\"), std::string::npos);
}

}  // namespace
}  // namespace api
