#include "chat/detokenizer.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "chat/test_support.h"
#include "chat/utf8.h"

namespace chat {
namespace {

using Ids = std::vector<TokenId>;

std::string PushAll(const Tokenizer& tokenizer, const Ids& ids, Detokenizer::Options options) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const TokenId id : ids) {
    text += detokenizer.Push(id);
  }
  return text + detokenizer.Flush();
}

Ids RandomIds(const Tokenizer& tokenizer) {
  return *rc::gen::container<Ids>(rc::gen::inRange<TokenId>(0, tokenizer.vocab_size()));
}

RC_GTEST_PROP(DetokenizerProperty, PiecesOfAByteLevelTokenizerJoinToTheDecodedWhole, (bool skip)) {
  static const auto qwen = test::FixtureTokenizer("qwen3");
  static const auto llama = test::FixtureTokenizer("llama");
  for (const auto& tokenizer : {qwen, llama}) {
    const Ids ids = RandomIds(*tokenizer);
    RC_ASSERT(PushAll(*tokenizer, ids, {.skip_special = skip}) ==
              tokenizer->Decode(ids, skip).value());
  }
}

// The Hugging Face decoder turns every byte of a run of byte tokens into U+FFFD when one is out of
// place; a stream cannot take back what it has sent, so such runs are left out here and judged as
// bytes below.
RC_GTEST_PROP(DetokenizerProperty, PiecesOfASentencePieceTokenizerJoinToTheDecodedWhole,
              (bool skip)) {
  static const auto tokenizer = test::FixtureTokenizer("gemma3");
  static const TokenId first_byte = tokenizer->Find("<0x00>");
  Ids ids;
  for (const TokenId id : RandomIds(*tokenizer)) {
    if (id < first_byte || id >= first_byte + 256) {
      ids.push_back(id);
    }
  }
  for (const unsigned char byte : std::string("\xF0\x9F\x98\x80")) {
    ids.push_back(first_byte + byte);
  }
  RC_ASSERT(PushAll(*tokenizer, ids, {.skip_special = skip}) ==
            tokenizer->Decode(ids, skip).value());
}

RC_GTEST_PROP(DetokenizerProperty, NoPieceEndsInsideACharacter, ()) {
  static const auto tokenizer = test::FixtureTokenizer("gemma3");
  Detokenizer detokenizer(*tokenizer, {});
  std::string bytes;
  std::string text;
  for (const TokenId id : RandomIds(*tokenizer)) {
    const std::string piece = detokenizer.Push(id);
    std::string copy = piece;
    RC_ASSERT(TakeUtf8(copy, true) == piece);
    text += piece;
    if (!tokenizer->IsSpecial(id)) {
      bytes += tokenizer->TokenBytes(id);
    }
  }
  text += detokenizer.Flush();
  RC_ASSERT(text == TakeUtf8(bytes, true));
}

TEST(Utf8, ReplacesMaximalPartsAsPythonAndRustDo) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a\x80z", "a\xEF\xBF\xBDz"},
      {"\xF0\x9F\x98", "\xEF\xBF\xBD"},
      {"\xF0\x9F\x98z", "\xEF\xBF\xBDz"},
      {"\xE0\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xC3\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
      {"\xF4\x90\x80\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xFF", "\xEF\xBF\xBD"}};
  for (const auto& [bytes, text] : cases) {
    std::string whole = bytes;
    EXPECT_EQ(TakeUtf8(whole, true), text);
    std::string pending;
    std::string joined;
    for (const char byte : bytes) {
      pending += byte;
      joined += TakeUtf8(pending, false);
    }
    EXPECT_EQ(joined + TakeUtf8(pending, true), text);
  }
}

TEST(Detokenizer, LeavesSpecialTokensOutUnlessAsked) {
  const auto tokenizer = test::FixtureTokenizer("qwen3");
  const Ids ids =
      tokenizer->Encode("a<|im_end|><think>", Tokenizer::SpecialTokens::kParse, false).value();
  EXPECT_EQ(PushAll(*tokenizer, ids, {.skip_special = true}), "a<think>");
  EXPECT_EQ(PushAll(*tokenizer, ids, {.skip_special = false}), "a<|im_end|><think>");
}

// SentencePiece with a space before the first word, as Llama 2 has it.
std::shared_ptr<const Tokenizer> PrefixTokenizer() {
  model_files::TokenizerFiles files;
  files.gguf = model_files::GgufVocabulary{.model = "llama",
                                           .pre = "default",
                                           .tokens = {"<unk>", "<s>", "\xE2\x96\x81", "a",
                                                      "\xE2\x96\x81"
                                                      "a"},
                                           .scores = {0, 0, -2, -3, -1},
                                           .token_types = {2, 3, 1, 1, 1},
                                           .merges = {},
                                           .add_bos = true,
                                           .add_eos = {},
                                           .add_space_prefix = {}};
  files.bos_token = "<s>";
  return Tokenizer::Load(files).value();
}

TEST(Detokenizer, DropsThePrefixSpaceOnlyAtTheStartOfATextThatHasOne) {
  const auto tokenizer = PrefixTokenizer();
  const Ids ids = tokenizer->Encode("a a", Tokenizer::SpecialTokens::kParse, true).value();
  EXPECT_EQ(ids, (Ids{1, 4, 4}));
  EXPECT_EQ(PushAll(*tokenizer, ids, {.skip_special = true, .at_text_start = true}), "a a");
  EXPECT_EQ(PushAll(*tokenizer, ids, {.skip_special = true, .at_text_start = false}), " a a");
  const auto gemma = test::FixtureTokenizer("gemma3");
  const Ids space = gemma->Encode(" a", Tokenizer::SpecialTokens::kParse, false).value();
  EXPECT_EQ(PushAll(*gemma, space, {.skip_special = true, .at_text_start = true}), " a");
}

}  // namespace
}  // namespace chat
