#include "chat/tools_as_text.h"

#include <gtest/gtest.h>

#include "chat/template_variables.h"

namespace chat {
namespace {

TEST(ToolsAsText, OffersCallsAndResultsStandInTheText) {
  Conversation conversation = ProbeConversation();
  Message second = conversation.messages.back();
  conversation.messages.push_back(std::move(second));
  const Conversation text = WithToolsAsText(conversation, /*knows_system=*/true);
  EXPECT_TRUE(UsesTools(conversation));
  EXPECT_FALSE(UsesTools(text));
  ASSERT_EQ(text.messages.size(), 4U) << "results in a row are one message";
  EXPECT_EQ(text.messages[0].role, Role::kSystem);
  EXPECT_NE(text.messages[0].content.find("A probe."), std::string::npos);
  EXPECT_EQ(text.messages[2].content,
            "<tool_call>\n{\"name\": \"probe\", \"arguments\": {\"probe_key\": \"probe_value\"}}\n"
            "</tool_call>");
  EXPECT_EQ(text.messages[3].role, Role::kUser);
  EXPECT_EQ(text.messages[3].content,
            "<tool_response>\nok\n</tool_response>\n<tool_response>\nok\n</tool_response>");
}

TEST(ToolsAsText, ASystemMessageIsKeptInFront) {
  Conversation conversation = ProbeConversation();
  conversation.messages.insert(conversation.messages.begin(),
                               {.role = Role::kSystem, .content = "Be brief."});
  EXPECT_TRUE(WithToolsAsText(conversation, true).messages[0].content.starts_with("Be brief.\n\n"));
}

TEST(ToolsAsText, WithoutSystemMessagesTheUserIsTold) {
  const Conversation text = WithToolsAsText(ProbeConversation(), /*knows_system=*/false);
  EXPECT_EQ(text.messages[0].role, Role::kUser);
  EXPECT_TRUE(text.messages[0].content.ends_with("\n\nProbe."));
}

}  // namespace
}  // namespace chat
