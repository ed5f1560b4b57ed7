#include "api/prompt_boundaries.h"

#include <gtest/gtest.h>

#include <string>

#include "api/testing_served_model.h"

namespace api {
namespace {

// The text of the tokens before each boundary.
std::vector<std::string> TextsBefore(const chat::Conversation& conversation) {
  const ScriptedModel played;
  const ServedModel& model = played.model;
  const chat::RenderedPrompt prompt = model.chat_template->Render(conversation).value();
  std::vector<std::string> texts;
  for (const std::int64_t boundary :
       BoundariesOf(*model.tokenizer, prompt.tokens, FactsOf(conversation, prompt.text))) {
    std::string text;
    for (std::int64_t i = 0; i < boundary; ++i) {
      text += model.tokenizer->TokenBytes(prompt.tokens[static_cast<std::size_t>(i)]);
    }
    EXPECT_TRUE(prompt.text.starts_with(text));
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(PromptBoundaries, AreBeforeTheLastUserMessageAndTheLastMessage) {
  chat::Conversation conversation;
  conversation.messages = {{.role = chat::Role::kSystem, .content = "Be brief."},
                           {.role = chat::Role::kUser, .content = "First question"},
                           {.role = chat::Role::kAssistant, .content = "First answer"},
                           {.role = chat::Role::kUser, .content = "Second question"}};
  const auto asked = TextsBefore(conversation);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_NE(asked[0].find("First answer"), std::string::npos);
  EXPECT_EQ(asked[0].find("Second"), std::string::npos);

  conversation.messages.push_back({.role = chat::Role::kAssistant, .content = "Looking it up"});
  conversation.messages.push_back({.role = chat::Role::kTool, .content = "A long result"});
  const auto looked_up = TextsBefore(conversation);
  ASSERT_EQ(looked_up.size(), 2U);
  EXPECT_EQ(looked_up[0], asked[0]);
  EXPECT_NE(looked_up[1].find("Looking it up"), std::string::npos);
  EXPECT_EQ(looked_up[1].find("A long"), std::string::npos);
}

TEST(PromptBoundaries, AFirstMessageIsPartedFromWhatTheTemplatePutsBeforeIt) {
  chat::Conversation conversation;
  conversation.messages = {{.role = chat::Role::kUser, .content = "Only question"}};
  const auto asked = TextsBefore(conversation);
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_NE(asked[0].find("user"), std::string::npos);
  EXPECT_EQ(asked[0].find("Only"), std::string::npos);
}

TEST(PromptBoundaries, ATextWithoutMessagesHasNone) {
  const ScriptedModel played;
  EXPECT_TRUE(BoundariesOf(*played.model.tokenizer, {1, 2, 3}, {}).empty());
}

}  // namespace
}  // namespace api
