#include "api/anthropic_conversation.h"

#include <gtest/gtest.h>

#include "api/reasoning_seal.h"

namespace api {
namespace {

using chat::Role;

AnthropicConversation Read(const char* json, const Normalizer& normalizer = {}) {
  auto result = ReadAnthropicConversation(ParseJson(json).value(), normalizer);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? std::move(*result) : AnthropicConversation{};
}

TEST(AnthropicConversation, AStringAndOneBlockAreTheSame) {
  for (const char* json :
       {R"({"system": "S", "messages": [{"role": "user", "content": "hi"}]})",
        R"({"system": [{"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]})",
        R"({"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2;"},
                       {"type": "text", "text": "S"}],
            "messages": [{"role": "user", "content": "hi"}]})"}) {
    const auto messages = Read(json).conversation.messages;
    ASSERT_EQ(messages.size(), 2U);
    EXPECT_EQ(messages[0].role, Role::kSystem);
    EXPECT_EQ(messages[0].content, "S");
    EXPECT_EQ(messages[1].content, "hi");
  }
}

TEST(AnthropicConversation, WhatIsLeftOutLeavesNoTrace) {
  const char* json = R"({"system": [{"type": "text", "text": "x-anthropic-billing-header: v=2;"},
                                    {"type": "text", "text": "S"}],
      "messages": [{"role": "user", "content": "hi"},
        {"role": "system", "content": "<total_tokens>9 tokens left</total_tokens>"},
        {"role": "user", "content": [
           {"type": "text", "text": "<total_tokens>8 tokens left</total_tokens>"},
           {"type": "text", "text": "go"}]},
        {"role": "assistant", "content": "<total_tokens>7 tokens left</total_tokens>"},
        {"role": "user", "content": "x-anthropic-billing-header: what?"}]})";
  const auto read = Read(json);
  const auto& messages = read.conversation.messages;
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[0].content, "S");
  EXPECT_EQ(messages[1].content, "hi");
  EXPECT_EQ(messages[2].content, "go");
  EXPECT_EQ(messages[3].content, "<total_tokens>7 tokens left</total_tokens>");
  EXPECT_EQ(messages[4].content, "x-anthropic-billing-header: what?");
  EXPECT_EQ(read.left_out,
            (std::vector<std::string>{"claude-code: attribution header", "claude-code: tokens left",
                                      "claude-code: tokens left"}));

  const auto whole = Read(json, Normalizer::Make("off").value());
  EXPECT_EQ(whole.conversation.messages.size(), 6U);
  EXPECT_TRUE(whole.left_out.empty());
  EXPECT_TRUE(whole.conversation.messages[0].content.starts_with("x-anthropic-billing-header"));
}

TEST(AnthropicConversation, AConversationOfNothingElseIsAnEmptyMessage) {
  const auto read = Read(R"({"messages": [
      {"role": "user", "content": "<total_tokens>9 tokens left</total_tokens>"}]})");
  ASSERT_EQ(read.conversation.messages.size(), 1U);
  EXPECT_EQ(read.conversation.messages[0].content, "");
}

TEST(AnthropicConversation, ResultsComeBeforeTheTextOfTheirMessage) {
  const auto messages = Read(R"({"messages": [
      {"role": "user", "content": "go"},
      {"role": "assistant", "content": [
         {"type": "thinking", "thinking": "Plan.", "signature": ""}, {"type": "text", "text": "Ok"},
         {"type": "tool_use", "id": "t1", "name": "look", "input": {"a": 1}}]},
      {"role": "user", "content": [
         {"type": "text", "text": "Now"},
         {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "N"}]}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}]})")
                            .conversation.messages;
  ASSERT_EQ(messages.size(), 5U);
  EXPECT_EQ(messages[1].reasoning, "Plan.");
  EXPECT_EQ(messages[1].content, "Ok");
  EXPECT_EQ(messages[1].tool_calls[0].arguments["a"], 1);
  EXPECT_EQ(messages[2].role, Role::kTool);
  EXPECT_EQ(messages[2].content, "N");
  EXPECT_EQ(messages[2].name, "look");
  EXPECT_EQ(messages[3].role, Role::kUser);
  EXPECT_EQ(messages[3].content, "Now");
  EXPECT_EQ(messages[4].role, Role::kTool);
}

TEST(AnthropicConversation, SystemMessagesStayInTheirPlace) {
  const auto messages = Read(R"({"system": "A", "messages": [{"role": "user", "content": "hi"},
                                 {"role": "system", "content": "B"}]})")
                            .conversation.messages;
  EXPECT_EQ(messages[2].role, Role::kSystem);
  EXPECT_EQ(messages[2].content, "B");
}

TEST(AnthropicConversation, DeferredToolsAreRenderedWhereTheyAreReferredTo) {
  const auto read = Read(R"({"tools": [
      {"name": "front", "input_schema": {"type": "object"}},
      {"name": "later", "description": "does it", "input_schema": {}, "defer_loading": true},
      {"type": "web_search_20250305", "name": "web_search"}],
    "messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
      "content": [{"type": "tool_reference", "tool_name": "later"},
                  {"type": "tool_reference", "tool_name": "gone"}]}]}]})");
  ASSERT_EQ(read.conversation.tools.size(), 1U);
  EXPECT_EQ(read.conversation.tools[0].name, "front");
  ASSERT_EQ(read.deferred_tools.size(), 1U);
  const std::string& text = read.conversation.messages[0].content;
  EXPECT_NE(text.find("does it"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("gone"));
}

TEST(AnthropicConversation, OmittedThinkingComesBackInItsSignature) {
  const std::string sealed = SealReasoning("Think hard.");
  const auto messages =
      Read((R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content":
            [{"type": "thinking", "thinking": "", "signature": ")" +
            sealed + R"("}, {"type": "text", "text": "y"}]}, {"role": "user", "content": "z"}]})")
               .c_str())
          .conversation.messages;
  EXPECT_EQ(messages[1].reasoning, "Think hard.");
}

TEST(AnthropicConversation, ALastAssistantMessageIsContinued) {
  const auto read = Read(R"({"messages": [{"role": "user", "content": "x"},
                                          {"role": "assistant", "content": "The answer"}]})");
  EXPECT_TRUE(read.conversation.continue_final_message);
  EXPECT_FALSE(read.conversation.add_generation_prompt);
}

}  // namespace
}  // namespace api
