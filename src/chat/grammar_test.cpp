#include "chat/grammar.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "chat/test_support.h"

namespace chat {
namespace {

bool IsSet(std::span<const std::uint32_t> mask, TokenId id) {
  const auto bit = static_cast<std::size_t>(id);
  return (mask[bit / 32] >> (bit % 32) & 1U) != 0;
}

struct ConstrainedModel {
  explicit ConstrainedModel(const std::string& name, const std::string& eos_text)
      : tokenizer(test::FixtureTokenizer(name)),
        eos(tokenizer->Find(eos_text)),
        vocab_size(tokenizer->vocab_size() + 50),  // models pad their vocabulary
        factory(tokenizer, {eos, tokenizer->Find(eos_text)}, vocab_size) {}

  std::shared_ptr<const Tokenizer> tokenizer;
  TokenId eos;
  int vocab_size;
  GrammarFactory factory;
};

// What a model of no sense writes: any token that may come, ends when it may and the dice say so.
std::string RandomText(const ConstrainedModel& model, TokenConstraint& constraint, unsigned seed,
                       int limit) {
  std::mt19937 random(seed);
  std::string text;
  for (int n = 0; n < limit; ++n) {
    const auto mask = constraint.AllowedTokens().value();
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < model.vocab_size; ++id) {
      if (IsSet(mask, id)) {
        allowed.push_back(id);
      }
    }
    EXPECT_FALSE(allowed.empty());
    EXPECT_TRUE(allowed.empty() || allowed.back() < model.tokenizer->vocab_size());
    const TokenId next = IsSet(mask, model.eos) ? model.eos : allowed.at(random() % allowed.size());
    EXPECT_TRUE(constraint.Accept(next).has_value());
    if (next == model.eos) {
      return text;
    }
    text += model.tokenizer->TokenBytes(next);
  }
  return "";  // too long
}

const Json kSchema = {{"type", "object"},
                      {"properties",
                       {{"color", {{"enum", {"red", "gr\xC3\xBCn"}}}},
                        {"size", {{"type", "integer"}, {"minimum", 1}, {"maximum", 20}}},
                        {"ok", {{"$ref", "#/$defs/flag"}}}}},
                      {"$defs", {{"flag", {{"type", "boolean"}}}}},
                      {"required", {"color", "size", "ok"}},
                      {"additionalProperties", false}};

TEST(Grammar, WhateverIsSampledFitsTheSchema) {
  for (const auto& [name, eos] : {std::pair("qwen3", "<|im_end|>"), std::pair("gemma3", "<eos>")}) {
    const ConstrainedModel model(name, eos);
    for (unsigned seed = 0; seed < 20; ++seed) {
      const auto constraint = model.factory.JsonSchema(kSchema).value();
      const std::string text = RandomText(model, *constraint, seed, 400);
      const Json json = Json::parse(text, nullptr, false);
      ASSERT_TRUE(json.is_object()) << text;
      EXPECT_EQ(json.size(), 3U);
      EXPECT_TRUE(json["color"] == "red" || json["color"] == "gr\xC3\xBCn") << text;
      EXPECT_TRUE(json["size"].is_number_integer() && json["size"] >= 1 && json["size"] <= 20)
          << text;
      EXPECT_TRUE(json["ok"].is_boolean()) << text;
    }
  }
}

TEST(Grammar, AJsonObjectStartsWithABraceAndMayEndOnlyWhenClosed) {
  const ConstrainedModel model("qwen3", "<|im_end|>");
  const auto constraint = model.factory.JsonObject().value();
  const TokenId open = model.tokenizer->Find("{");
  const TokenId close = model.tokenizer->Find("}");
  auto mask = constraint->AllowedTokens().value();
  EXPECT_EQ(mask.size(), (static_cast<std::size_t>(model.vocab_size) + 31) / 32);
  EXPECT_TRUE(IsSet(mask, open));
  EXPECT_FALSE(IsSet(mask, close));
  EXPECT_FALSE(IsSet(mask, model.eos));
  EXPECT_FALSE(IsSet(mask, model.tokenizer->Find("<|im_start|>")));
  EXPECT_FALSE(constraint->Accept(close).has_value());

  const auto closed = model.factory.JsonObject().value();
  ASSERT_TRUE(closed->Accept(open).has_value());
  ASSERT_TRUE(closed->Accept(close).has_value());
  mask = closed->AllowedTokens().value();
  EXPECT_TRUE(IsSet(mask, model.eos));
  EXPECT_FALSE(IsSet(mask, open));
  EXPECT_TRUE(closed->Accept(model.eos).has_value());
  EXPECT_TRUE(IsSet(closed->AllowedTokens().value(), model.eos));
}

TEST(Grammar, WhiteSpaceCannotRunOn) {
  const ConstrainedModel model("qwen3", "<|im_end|>");
  const auto constraint = model.factory.JsonObject().value();
  ASSERT_TRUE(constraint->Accept(model.tokenizer->Find("{")).has_value());
  const TokenId space = model.tokenizer->Find("\xC4\xA0");  // GPT-2's stand-in for a space
  ASSERT_TRUE(constraint->Accept(space).has_value());
  const auto mask = constraint->AllowedTokens().value();
  EXPECT_FALSE(IsSet(mask, space));
  EXPECT_FALSE(IsSet(mask, model.tokenizer->Find("\xC4\x8A")));  // line feed
}

TEST(Grammar, SaysWhatIsWrongWithASchema) {
  const ConstrainedModel model("llama", "<|eot_id|>");
  for (const Json& schema :
       {Json{{"type", "no such type"}}, Json(3), Json{{"$ref", "http://example.com/x"}},
        Json{{"$ref", "#"}},
        Json{{"$ref", "#/$defs/a"}, {"$defs", {{"a", {{"$ref", "#/$defs/a"}}}}}},
        Json{{"type", "object"}, {"patternProperties", 7}}}) {
    const auto constraint = model.factory.JsonSchema(schema);
    ASSERT_FALSE(constraint.has_value()) << schema;
    EXPECT_EQ(constraint.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(constraint.error().param, "response_format");
    EXPECT_NE(constraint.error().message.find("JSON schema"), std::string::npos);
  }
}

// Each may come next, or any behind it: the parser holds all of them at once.
Json ManyOptionalProperties(int n, const std::string& prefix) {
  Json properties = Json::object();
  for (int i = 0; i < n; ++i) {
    properties[prefix + std::to_string(i)] = {{"type", "string"}};
  }
  return {{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
}

TEST(Grammar, LargeSchemasWork) {
  const ConstrainedModel model("llama", "<|eot_id|>");
  Json choices = Json::array();
  for (int i = 0; i < 20; ++i) {
    choices.push_back(ManyOptionalProperties(50, fmt::format("c{}_", i)));
  }
  for (const Json& schema : {ManyOptionalProperties(1000, "p_"), Json{{"anyOf", choices}}}) {
    const auto constraint = model.factory.JsonSchema(schema);
    ASSERT_TRUE(constraint.has_value()) << constraint.error().message;
    for (unsigned seed = 0; seed < 3; ++seed) {
      const auto each = model.factory.JsonSchema(schema).value();
      const Json json = Json::parse(RandomText(model, *each, seed, 400), nullptr, false);
      EXPECT_TRUE(json.is_object());
    }
  }
}

TEST(Grammar, ASchemaThatRefersToItselfInsideIsRecursiveAndFine) {
  const ConstrainedModel model("llama", "<|eot_id|>");
  const Json tree = {{"type", "object"},
                     {"properties", {{"left", {{"$ref", "#"}}}, {"right", {{"$ref", "#"}}}}},
                     {"additionalProperties", false}};
  EXPECT_TRUE(model.factory.JsonSchema(tree).has_value());
}

TEST(Grammar, LarkAndRegularExpressionsConstrainToo) {
  const ConstrainedModel model("llama", "<|eot_id|>");
  const auto lark = model.factory.Lark("start: \"a\"{3} | \"bc\"").value();
  const std::string text = RandomText(model, *lark, 1, 10);
  EXPECT_TRUE(text == "aaa" || text == "bc") << text;
  const auto regex = model.factory.Regex("[0-9]{4}-[0-9]{2}").value();
  EXPECT_EQ(RandomText(model, *regex, 1, 10).size(), 7U);
  EXPECT_EQ(model.factory.Lark("start: nowhere").error().code, ErrorCode::kInvalidRequest);
  EXPECT_EQ(model.factory.Regex("(").error().code, ErrorCode::kInvalidRequest);
}

}  // namespace
}  // namespace chat
