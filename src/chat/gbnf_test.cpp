#include "chat/gbnf.h"

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chat/grammar.h"
#include "chat/test_support.h"

namespace chat {
namespace {

bool IsSet(std::span<const std::uint32_t> mask, TokenId id) {
  const auto bit = static_cast<std::size_t>(id);
  return (mask[bit / 32] >> (bit % 32) & 1U) != 0;
}

class Gbnf : public testing::Test {
 protected:
  // Is the whole text in the grammar's language?
  bool Matches(const std::string& gbnf, const std::string& text) const {
    const Result<std::string> lark = LarkOfGbnf(gbnf);
    EXPECT_TRUE(lark.has_value()) << (lark ? "" : lark.error().message);
    const auto constraint = factory_.Lark(*lark);
    EXPECT_TRUE(constraint.has_value()) << *lark << constraint.error().message;
    const std::vector<TokenId> tokens =
        tokenizer_->Encode(text, Tokenizer::SpecialTokens::kAsText, false).value();
    for (const TokenId token : tokens) {
      if (!IsSet((*constraint)->AllowedTokens().value(), token) ||
          !(*constraint)->Accept(token).has_value()) {
        return false;
      }
    }
    return IsSet((*constraint)->AllowedTokens().value(), tokenizer_->Find("<|im_end|>"));
  }

  std::shared_ptr<const Tokenizer> tokenizer_ = test::FixtureTokenizer("qwen3");
  GrammarFactory factory_{tokenizer_, {tokenizer_->Find("<|im_end|>")}, tokenizer_->vocab_size()};
};

TEST_F(Gbnf, RulesLiteralsClassesAndRepetitionsMeanTheSame) {
  const std::string chess =
      "# a game\n"
      "root ::= \"1. \" move \" \" move \"\\n\" ([1-9] [0-9]? \". \" move \" \" move \"\\n\")+\n"
      "move ::= (pawn | nonpawn | castle) [+#]?\n"
      "nonpawn ::= [NBKQR] [a-h]? [1-8]? \"x\"? [a-h] [1-8]\n"
      "pawn    ::= ([a-h] \"x\")? [a-h] [1-8] (\"=\" [NBKQR])?\n"
      "castle  ::= \"O-O\" \"-O\"?\n";
  EXPECT_TRUE(Matches(chess, "1. e4 e5\n2. Nf3 Nc6\n"));
  EXPECT_TRUE(Matches(chess, "1. e4 O-O-O\n2. axb8=Q+ Nc6\n"));
  EXPECT_FALSE(Matches(chess, "1. e4 e9\n"));
  EXPECT_FALSE(Matches(chess, "1. e4 e5\n"));
}

TEST_F(Gbnf, RulesMayComeBackToThemselves) {
  const std::string lists =
      "root ::= list\n"
      "list ::= \"[\" ws (value (\",\" ws value)*)? \"]\" ws\n"
      "value ::= list | word\n"
      "word ::= \"\\\"\" [^\"\\\\\\x00-\\x1F]* \"\\\"\"\n"
      "ws ::= [ \\t\\n]*\n";
  EXPECT_TRUE(Matches(lists, "[]"));
  EXPECT_TRUE(Matches(lists, "[\"a/b\", [[], \"c]\"]]"));
  EXPECT_FALSE(Matches(lists, "[\"a]"));
}

TEST_F(Gbnf, AlternativesMayStandOnSeveralLinesAndBeEmpty) {
  const std::string gbnf =
      "root ::= \"a\" (\n  \"b\" |\n  \"c\"{2,3} | ) Tail |\n \"z\"\nTail ::= .\n";
  EXPECT_TRUE(Matches(gbnf, "abx"));
  EXPECT_TRUE(Matches(gbnf, "accx"));
  EXPECT_TRUE(Matches(gbnf, "ax"));
  EXPECT_TRUE(Matches(gbnf, "z"));
  EXPECT_FALSE(Matches(gbnf, "zx"));
}

TEST_F(Gbnf, SaysWhatIsWrong) {
  for (const auto& [gbnf, says] :
       {std::pair("a ::= \"b\"", "named root"), std::pair("root ::= b", "rule b"),
        std::pair("root ::= \"a", "not closed in line 1"),
        std::pair("root ::= \"a\"\nx ::= (\"b\"", "not closed in line 2"),
        std::pair("root ::= [a", "not closed"), std::pair("root = \"a\" ::=", "expected a rule")}) {
    const Result<std::string> lark = LarkOfGbnf(gbnf);
    ASSERT_FALSE(lark.has_value()) << gbnf;
    EXPECT_NE(lark.error().message.find(says), std::string::npos) << lark.error().message;
  }
  EXPECT_TRUE(IsGbnf("root ::= \"a\""));
  EXPECT_FALSE(IsGbnf("start: \"a\""));
}

}  // namespace
}  // namespace chat
