#include "api/openai_messages.h"

#include <gtest/gtest.h>

namespace api {
namespace {

Result<chat::Conversation> Read(const std::string& messages) {
  return ReadConversation(ParseJson(R"({"messages": )" + messages + "}").value());
}

std::string FaultOf(const std::string& messages) {
  const auto conversation = Read(messages);
  return conversation ? "" : conversation.error().message;
}

TEST(ReadConversation, TextPartsAreJoinedWithoutSeparator) {
  const auto conversation = Read(R"([{"role": "user", "content": [{"type": "text", "text": "One "},
              {"type": "text", "text": "two"}, {"type": "refusal", "refusal": "!"}]}])");
  ASSERT_TRUE(conversation) << conversation.error().message;
  EXPECT_EQ(conversation->messages[0].content, "One two!");
}

TEST(ReadConversation, RolesAreReadAndOthersRefusedByName) {
  const auto conversation = Read(R"([{"role": "system", "content": "a"},
      {"role": "developer", "content": "b"}, {"role": "user", "content": "c"},
      {"role": "assistant", "content": null}, {"role": "tool", "content": "d",
      "tool_call_id": "x"}, {"role": "system", "content": "late"}])");
  ASSERT_TRUE(conversation) << conversation.error().message;
  EXPECT_EQ(conversation->messages[1].role, chat::Role::kDeveloper);
  EXPECT_EQ(conversation->messages[3].content, "");
  EXPECT_EQ(conversation->messages[4].tool_call_id, "x");
  EXPECT_EQ(FaultOf(R"([{"role": "banana", "content": "x"}])"),
            "`messages[0].role` must be one of system, developer, user, assistant, tool, function, "
            "got \"banana\".");
  EXPECT_NE(FaultOf(R"([{"content": "x"}])").find("`messages[0].role`"), std::string::npos);
}

TEST(ReadConversation, PartsThatAreNoTextAreRefusedByName) {
  for (const char* part :
       {R"({"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/x.png"}})",
        R"({"type": "input_audio", "input_audio": {}})", R"({"type": "file", "file": {}})"}) {
    const std::string fault =
        FaultOf(R"([{"role": "user", "content": [{"type": "text", "text": "x"}, )" +
                std::string(part) + "]}]");
    EXPECT_TRUE(fault.starts_with("`messages[0].content[1].type` must be \"text\"")) << fault;
    EXPECT_TRUE(fault.ends_with("this model takes text only.")) << fault;
  }
}

TEST(ReadConversation, ArgumentsBecomeAnObjectWhereTheyAreOne) {
  const auto call = [](const char* arguments) {
    return Read(R"([{"role": "assistant", "content": null, "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": )" +
                std::string(arguments) + "}}]}]")
        .value()
        .messages[0];
  };
  EXPECT_EQ(call(R"("{\"a\": [1, 2]}")").tool_calls[0].arguments, (Json{{"a", {1, 2}}}));
  EXPECT_EQ(call(R"({"a": 1})").tool_calls[0].arguments, (Json{{"a", 1}}));
  EXPECT_EQ(call(R"("")").tool_calls[0].arguments, Json::object());
  EXPECT_EQ(call(R"("{\"a\": \"te")").tool_calls[0].arguments, "{\"a\": \"te");
  EXPECT_EQ(call(R"("[1]")").tool_calls[0].arguments, "[1]");
  EXPECT_EQ(call(R"("")").reasoning, "hm");
  EXPECT_EQ(call(R"("")").tool_calls[0].id, "c1");
}

TEST(ReadConversation, AnEmptyOrMissingListIsRefused) {
  EXPECT_EQ(FaultOf("[]"), "`messages` must have at least one message, got an empty list.");
  EXPECT_EQ(FaultOf("null"), "`messages` is missing: a list of at least one message is expected.");
  EXPECT_EQ(FaultOf(R"({"a": 1})"), "`messages` must be a list, got an object.");
  EXPECT_EQ(FaultOf("[5]"), "`messages[0]` must be an object, got a number.");
}

TEST(ReadConversation, TemplateFieldsAreGathered) {
  const auto conversation = ReadConversation(
      ParseJson(R"({"messages": [{"role": "assistant", "content": "x"}], "enable_thinking": true,
                    "reasoning_effort": "low", "continue_final_message": true,
                    "chat_template_kwargs": {"enable_thinking": false, "other": 1}})")
          .value());
  ASSERT_TRUE(conversation) << conversation.error().message;
  EXPECT_EQ(conversation->template_kwargs["enable_thinking"], false);
  EXPECT_EQ(conversation->template_kwargs["reasoning_effort"], "low");
  EXPECT_EQ(conversation->template_kwargs["other"], 1);
  EXPECT_TRUE(conversation->continue_final_message);
  EXPECT_FALSE(conversation->add_generation_prompt);
}

}  // namespace
}  // namespace api
