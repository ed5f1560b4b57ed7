#include "api/thinking_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/constraint.h"
#include "api/openai_chat.h"
#include "api/testing_served_model.h"

namespace api {
namespace {

// What comes of a model that would write `wish`, token by token, under the constraint.
std::string Written(const ServedModel& model, TokenConstraint& constraint,
                    const std::string& wish) {
  const auto wishes =
      model.tokenizer->Encode(wish, chat::Tokenizer::SpecialTokens::kParse, false).value();
  std::string text;
  for (std::size_t next = 0; next < wishes.size();) {
    const auto mask = constraint.AllowedTokens().value();
    TokenId token = wishes[next];
    const auto is_set = [&](TokenId id) {
      const auto bit = static_cast<std::size_t>(id);
      return mask.empty() || (mask[bit / 32] >> (bit % 32) & 1U) != 0;
    };
    if (is_set(token)) {
      ++next;
    } else {
      for (token = 0; !is_set(token);) {
        ++token;
      }
    }
    EXPECT_TRUE(constraint.Accept(token).has_value());
    text += model.tokenizer->TokenBytes(token);
  }
  return text;
}

class ThinkingBudget : public testing::Test {
 protected:
  ThinkingBudget() { models_.model.parser_format = parsers::FindFormat("hermes"); }

  std::string Write(int budget, const std::string& prompt_tail, const std::string& wish) {
    const GenerationInput input{.prompt_tail = prompt_tail};
    const auto constraint = WithThinkingBudget(nullptr, budget, models_.model, input);
    return Written(models_.model, *constraint, wish);
  }

  ScriptedModel models_;
};

TEST_F(ThinkingBudget, TheCloserComesAtTheBudget) {
  EXPECT_EQ(Write(3, "assistant\n<think>\n", " a b c d e f"), " a b c\n</think>\n\n d e f");
  EXPECT_EQ(Write(0, "assistant\n<think>\n", " a b"), "\n</think>\n\n a b");
  EXPECT_EQ(Write(3, "assistant\n", "<think> a b c d e f"), "<think> a b c\n</think>\n\n d e f");
}

TEST_F(ThinkingBudget, WithinTheBudgetNothingChanges) {
  for (const char* text : {" a b c</think>\n\n one two three four five six seven eight nine ten"}) {
    EXPECT_EQ(Write(6, "assistant\n<think>\n", text), text);
  }
  const std::string answer = " one two three four <think> five six seven eight";
  EXPECT_EQ(Write(3, "assistant\n", answer), answer);
}

TEST_F(ThinkingBudget, WhatIsHeldToAFormIsSoBehindTheCloser) {
  const GenerationInput input{.prompt_tail = "assistant\n<think>\n"};
  GenerationOptions options;
  options.form = {.kind = AnswerForm::Kind::kChoice, .choices = {" x y"}};
  auto constraint = WithThinkingBudget(MakeConstraint(models_.model, input, options).value(), 3,
                                       models_.model, input);
  EXPECT_EQ(Written(models_.model, *constraint, " a b c x y"), " a b c\n</think>\n\n x y");
}

TEST_F(ThinkingBudget, IsReadFromEveryClientsField) {
  const auto read = [&](const char* text) {
    const Json body = Json::parse(text);
    FieldReader fields(body);
    const std::optional<int> budget = ReadThinkingBudget(fields, models_.model);
    EXPECT_FALSE(fields.error());
    return budget.value_or(-1);
  };
  EXPECT_EQ(read(R"({"reasoning_max_tokens": 7})"), 7);
  EXPECT_EQ(read(R"({"thinking_budget": 7})"), 7);
  EXPECT_EQ(read(R"({"thinking_budget": -1})"), -1);
  EXPECT_EQ(read(R"({"thinking_token_budget": 0})"), 0);
  EXPECT_EQ(read(R"({"reasoning": {"max_tokens": 9, "effort": "low"}})"), 9);
  EXPECT_EQ(read(R"({"thinking": {"type": "enabled", "budget_tokens": 2048}})"), 2048);
  EXPECT_EQ(read(R"({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}})"),
            1024);
  EXPECT_EQ(read(R"({"reasoning_effort": "none"})"), 0);
  EXPECT_EQ(read(R"({"reasoning_effort": "minimal"})"), 256);
  EXPECT_EQ(read(R"({"reasoning": {"effort": "high"}})"), -1);
  EXPECT_EQ(read(R"({"thinking": true, "reasoning": null})"), -1);
}

TEST_F(ThinkingBudget, ARequestIsHeldToIt) {
  PlayOptions play;
  play.pieces = {"<think>", " a", " b", " c", " d", " e", " f"};
  ScriptedModel models(play);
  models.model.parser_format = parsers::FindFormat("hermes");
  RecordedReply reply;
  Call(&ChatCompletions, models,
       R"({"messages": [{"role": "user", "content": "x"}], "reasoning_max_tokens": 3,
           "temperature": 0})",
       reply);
  ASSERT_EQ(reply.status, 200) << reply.error->message;
  const Json& message = reply.body["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "a b c") << reply.body;
  EXPECT_EQ(message["reasoning"], "a b c") << reply.body;
}

}  // namespace
}  // namespace api
