#include "chat/tokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "chat/test_support.h"

namespace chat {
namespace {

using test::FixtureNames;
using test::FixtureTokenizer;
using test::ReadFixture;

using Ids = std::vector<TokenId>;

Ids Encode(const Tokenizer& tokenizer, const std::string& text, bool add_special = false) {
  return tokenizer.Encode(text, Tokenizer::SpecialTokens::kParse, add_special).value();
}

Ids EncodePlain(const Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.Encode(text, Tokenizer::SpecialTokens::kAsText, false).value();
}

TEST(Tokenizer, EncodesAndDecodesAsTransformersDoes) {
  for (const std::string& name : FixtureNames()) {
    const auto tokenizer = FixtureTokenizer(name);
    for (const Json& golden : ReadFixture("tokenizers/" + name + "/golden.json")) {
      const auto text = golden["text"].get<std::string>();
      SCOPED_TRACE(name + ": " + text);
      const Ids ids = golden["ids"].get<Ids>();
      EXPECT_EQ(Encode(*tokenizer, text), ids);
      EXPECT_EQ(Encode(*tokenizer, text, true), golden["ids_with_special"].get<Ids>());
      EXPECT_EQ(tokenizer->Decode(ids, false).value(), golden["decoded"].get<std::string>());
      EXPECT_EQ(tokenizer->Decode(ids, true).value(),
                golden["decoded_skipping"].get<std::string>());
    }
  }
}

TEST(Tokenizer, ATextThatFitsIsNeverCalledTooLongAndAHugeOneIs) {
  for (const std::string& name : FixtureNames()) {
    const auto tokenizer = FixtureTokenizer(name);
    for (const Json& golden : ReadFixture("tokenizers/" + name + "/golden.json")) {
      const auto n_tokens = static_cast<std::int64_t>(golden["ids"].size());
      EXPECT_TRUE(tokenizer->CheckLength(golden["text"].get<std::string>(), n_tokens));
    }
    const Result<void> fits = tokenizer->CheckLength(std::string(10'000'000, 'a'), 100);
    ASSERT_FALSE(fits);
    EXPECT_EQ(fits.error().code, ErrorCode::kContextLengthExceeded);
    EXPECT_NE(fits.error().message.find("100 tokens"), std::string::npos);
    EXPECT_NE(fits.error().message.find("10000000 bytes"), std::string::npos);
  }
}

TEST(Tokenizer, GivesTheBytesOfEveryTokenOfAText) {
  for (const std::string& name : FixtureNames()) {
    const auto tokenizer = FixtureTokenizer(name);
    for (const Json& golden : ReadFixture("tokenizers/" + name + "/golden.json")) {
      std::string bytes;
      for (const TokenId id : golden["ids"].get<Ids>()) {
        bytes += tokenizer->TokenBytes(id);
      }
      EXPECT_EQ(bytes, golden["decoded"].get<std::string>()) << name;
    }
  }
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const auto tokenizer = FixtureTokenizer("qwen3");
  const TokenId end = tokenizer->Find("<|im_end|>");
  ASSERT_GE(end, 0);
  EXPECT_TRUE(tokenizer->IsSpecial(end));
  EXPECT_EQ(tokenizer->TokenBytes(end), "<|im_end|>");
  EXPECT_FALSE(tokenizer->IsSpecial(tokenizer->Find("<think>")));
  EXPECT_EQ(tokenizer->Find("<|no_such_token|>"), -1);
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
  EXPECT_EQ(tokenizer->TokenBytes(tokenizer->vocab_size()), "");
  EXPECT_FALSE(tokenizer->IsSpecial(-1));
}

TEST(Tokenizer, RefusesADamagedFileWithOneSentence) {
  model_files::TokenizerFiles files;
  files.tokenizer_json = "{\"version\": \"1.0\", \"model\": {";
  const auto tokenizer = Tokenizer::Load(files);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadModel);
  EXPECT_NE(tokenizer.error().message.find("tokenizer"), std::string::npos);
}

TEST(Tokenizer, RefusesIdsThatNoVocabularyHas) {
  model_files::TokenizerFiles files;
  files.tokenizer_json =
      R"({"version": "1.0", "added_tokens": [], "model":
          {"type": "WordLevel", "vocab": {"a": 1000000000}, "unk_token": "a"}})";
  const auto tokenizer = Tokenizer::Load(files);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadModel);
  EXPECT_NE(tokenizer.error().message.find("1000000000"), std::string::npos)
      << tokenizer.error().message;
}

TEST(Tokenizer, KeepsAddedTokensAsTextWhenAsked) {
  for (const std::string& name : FixtureNames()) {
    const auto tokenizer = FixtureTokenizer(name);
    for (const Tokenizer::AddedToken& token : tokenizer->added_tokens()) {
      const std::string text(token.text);
      if (text.find_first_not_of(" \n\t") == std::string::npos) {
        continue;
      }
      const Ids ids = EncodePlain(*tokenizer, "a " + text + " b");
      EXPECT_EQ(std::count(ids.begin(), ids.end(), token.id), 0) << name << " " << text;
      EXPECT_EQ(tokenizer->Decode(ids, false).value(), "a " + text + " b");
    }
  }
}

TEST(Tokenizer, PlainTextHasTheSameIdsWhateverIsProtected) {
  for (const std::string& name : FixtureNames()) {
    const auto tokenizer = FixtureTokenizer(name);
    for (const Json& golden : ReadFixture("tokenizers/" + name + "/golden.json")) {
      const auto text = golden["text"].get<std::string>();
      if (text.find('<') == std::string::npos && !text.empty()) {
        EXPECT_EQ(EncodePlain(*tokenizer, text), golden["ids"].get<Ids>()) << name << ": " << text;
        EXPECT_EQ(tokenizer->EncodeWithPlainSpans(text, {{0, text.size()}}).value(),
                  golden["ids"].get<Ids>());
      }
    }
  }
}

TEST(Tokenizer, ProtectsASpanAndParsesTheRest) {
  const auto tokenizer = FixtureTokenizer("qwen3");
  const std::string before = "<|im_start|>user\n";
  const std::string user = "end <|im_end|> it <tool_call>";
  const std::string after = "<|im_end|>\n";
  const Ids ids = tokenizer
                      ->EncodeWithPlainSpans(before + user + after,
                                             {{before.size(), before.size() + user.size()}})
                      .value();
  EXPECT_EQ(ids.front(), tokenizer->Find("<|im_start|>"));
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->Find("<|im_end|>")), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), tokenizer->Find("<tool_call>")), 0);
  EXPECT_EQ(tokenizer->Decode(ids, false).value(), before + user + after);
}

RC_GTEST_PROP(TokenizerProperty, ATextOfPartsIsProtectedInAnySpan, ()) {
  static const auto tokenizer = FixtureTokenizer("qwen3");
  static const std::vector<std::string> parts = {
      "<|im_end|>", "<think>", "</think>",  "<|im_",        "end|>", "<",
      " a",         "\n\n",    "e\xCC\x81", "\xE4\xBD\xA0", "  "};
  std::string text;
  std::vector<Tokenizer::Span> spans;
  for (const auto& [part, is_protected] :
       *rc::gen::container<std::vector<std::pair<int, bool>>>(rc::gen::pair(
           rc::gen::inRange(0, static_cast<int>(parts.size())), rc::gen::arbitrary<bool>()))) {
    const std::size_t begin = text.size();
    text += parts[static_cast<std::size_t>(part)];
    if (is_protected) {
      spans.push_back({begin, text.size()});
    }
  }
  const Ids ids = tokenizer->EncodeWithPlainSpans(text, spans).value();
  // The obvious twin: occurrences of the token outside of all spans, left to right.
  std::size_t expected = 0;
  const std::string token = "<|im_end|>";
  for (std::size_t at = text.find(token); at != std::string::npos;
       at = text.find(token, at + token.size())) {
    bool touched = false;
    for (const Tokenizer::Span& span : spans) {
      touched = touched || (span.begin < at + token.size() && at < span.end);
    }
    expected += touched ? 0 : 1;
  }
  RC_ASSERT(static_cast<std::size_t>(std::count(ids.begin(), ids.end(), tokenizer->Find(token))) ==
            expected);
}

}  // namespace
}  // namespace chat
