#include "api/forced_replies.h"

#include <gtest/gtest.h>

#include "api/openai_chat.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

class Forced : public testing::Test {
 protected:
  void Force(const std::string& json) {
    auto replies = ForcedReplies::Parse(json, *models.model.tokenizer, models.model.eos_ids,
                                        models.model.scheduler->facts().vocab_size);
    ASSERT_TRUE(replies) << replies.error().message;
    models.model.forced_replies = std::move(*replies);
  }

  Json Ask(const std::string& text, Json more = Json::object()) {
    more["messages"] = {{{"role", "user"}, {"content", text}}};
    RecordedReply reply;
    Call(&ChatCompletions, models, more.dump(), reply);
    last_error = reply.error ? reply.error->message : "";
    return reply.body.is_null() ? Json() : reply.body["choices"][0];
  }
  std::string Text(const std::string& text) {
    const Json choice = Ask(text);
    return choice.is_null() ? "" : choice["message"]["content"].get<std::string>();
  }

  ScriptedModel models;
  std::string last_error;
};

TEST_F(Forced, RepliesComeInTheirOrderEachOnce) {
  Force(R"(["One.", {"text": "Two \u20ac."}])");
  EXPECT_EQ(Text("a"), "One.");
  EXPECT_EQ(Text("a"), "Two \xE2\x82\xAC.");
  EXPECT_EQ(Text("a"), "");
  EXPECT_NE(last_error.find("No forced reply is left"), std::string::npos);
}

TEST_F(Forced, AReplyWithWhenAnswersEveryRequestThatHasIt) {
  Force(R"([{"when": "title", "text": "A title"}, "One.", "Two."])");
  EXPECT_EQ(Text("Give it a title."), "A title");
  EXPECT_EQ(Text("a"), "One.");
  EXPECT_EQ(Text("Give it a title."), "A title");
  EXPECT_EQ(Text("b"), "Two.");
}

TEST_F(Forced, WhenIsSoughtInAllThatCameAfterTheLastReply) {
  Force(R"([{"when": "title", "text": "A title"}, "One."])");
  const auto ask = [&](const char* messages) {
    RecordedReply reply;
    Call(&ChatCompletions, models, std::string(R"({"messages": )") + messages + "}", reply);
    return reply.body["choices"][0]["message"]["content"].get<std::string>();
  };
  EXPECT_EQ(ask(R"([{"role": "user", "content": "a title:"}, {"role": "user", "content": "b"}])"),
            "A title");
  EXPECT_EQ(ask(R"([{"role": "system", "content": "title"}, {"role": "user", "content": "title"},
                   {"role": "assistant", "content": "title"}, {"role": "user", "content": "b"}])"),
            "One.");
}

TEST_F(Forced, LimitsHoldAndFormsDoNot) {
  Force(R"(["One, two, three.", "One. Two.", "One."])");
  EXPECT_EQ(Ask("a", {{"max_tokens", 1}})["finish_reason"], "length");
  EXPECT_EQ(Ask("a", {{"stop", " Two"}})["message"]["content"], "One.");
  EXPECT_EQ(Ask("a", {{"response_format", {{"type", "json_object"}}}})["message"]["content"],
            "One.");
}

TEST_F(Forced, EachChoiceTakesAReply) {
  Force(R"(["One.", "Two."])");
  RecordedReply reply;
  Call(&ChatCompletions, models, R"({"n": 2, "messages": [{"role": "user", "content": "a"}]})",
       reply);
  EXPECT_EQ(reply.body["choices"][0]["message"]["content"], "One.");
  EXPECT_EQ(reply.body["choices"][1]["message"]["content"], "Two.");
}

TEST_F(Forced, OtherFormsAreRefused) {
  for (const char* json : {"", "{}", "[]", "[1]", R"([{"when": "a"}])", R"([{"text": 1}])",
                           R"([{"text": "a", "when": 1}])"}) {
    EXPECT_FALSE(ForcedReplies::Parse(json, *models.model.tokenizer, models.model.eos_ids, 2000))
        << json;
  }
  EXPECT_FALSE(ForcedReplies::Parse(R"(["a"])", *models.model.tokenizer, {}, 2000));
  EXPECT_FALSE(ForcedReplies::Parse(R"(["a"])", *models.model.tokenizer, {7}, 3));
}

}  // namespace
}  // namespace api
