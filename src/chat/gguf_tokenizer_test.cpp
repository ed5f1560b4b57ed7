#include "chat/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "chat/test_support.h"
#include "chat/tokenizer.h"
#include "test_paths.h"

namespace chat {
namespace {

using test::FixtureFiles;
using test::FixtureTokenizer;
using test::ReadFixture;

using Ids = std::vector<TokenId>;

bool IsByteToken(const std::string& token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

// A tokenizer.json as a converter writes it into a GGUF file.
model_files::TokenizerFiles AsGguf(const std::string& name, const std::string& kind,
                                   const std::string& pre) {
  model_files::TokenizerFiles files = FixtureFiles(name);
  const Json json = Json::parse(files.tokenizer_json);
  files.tokenizer_json.clear();
  model_files::GgufVocabulary vocabulary;
  vocabulary.model = kind;
  vocabulary.pre = pre;
  std::map<std::size_t, std::string> by_id;
  std::map<std::string, std::int32_t> added_type;
  for (const auto& [token, id] : json["model"]["vocab"].items()) {
    by_id[id.get<std::size_t>()] = token;
  }
  for (const Json& added : json["added_tokens"]) {
    by_id[added["id"].get<std::size_t>()] = added["content"].get<std::string>();
    added_type[added["content"].get<std::string>()] = added["special"].get<bool>() ? 3 : 4;
  }
  std::map<std::string, float> scores;
  for (const Json& merge : json["model"]["merges"]) {
    const auto left = merge[0].get<std::string>();
    const auto right = merge[1].get<std::string>();
    vocabulary.merges.push_back(left + " " + right);
    scores.emplace(left + right, -static_cast<float>(scores.size()));
  }
  for (std::size_t id = 0; id <= by_id.rbegin()->first; ++id) {
    const std::string token = by_id.contains(id) ? by_id[id] : "[PAD" + std::to_string(id) + "]";
    const std::int32_t type = added_type.contains(token) ? added_type[token]
                              : IsByteToken(token)       ? 6
                                                         : 1;
    vocabulary.tokens.push_back(token);
    vocabulary.token_types.push_back(by_id.contains(id) ? type : 5);
    vocabulary.scores.push_back(scores.contains(token) ? scores[token] : -1e6F);
  }
  vocabulary.add_bos = !files.bos_token.empty();
  vocabulary.add_space_prefix = false;
  if (kind == "llama") {
    vocabulary.merges.clear();
  }
  files.gguf = std::move(vocabulary);
  return files;
}

void ExpectGolden(const Tokenizer& tokenizer, const std::string& golden_path) {
  for (const Json& golden : ReadFixture(golden_path)) {
    const auto text = golden["text"].get<std::string>();
    SCOPED_TRACE(golden_path + ": " + text);
    EXPECT_EQ(tokenizer.Encode(text, Tokenizer::SpecialTokens::kParse, false).value(),
              golden["ids"].get<Ids>());
    EXPECT_EQ(tokenizer.Encode(text, Tokenizer::SpecialTokens::kParse, true).value(),
              golden["ids_with_special"].get<Ids>());
    EXPECT_EQ(tokenizer.Decode(golden["ids"].get<Ids>(), false).value(),
              golden["decoded"].get<std::string>());
  }
}

TEST(GgufTokenizer, GivesTheIdsOfTheTokenizerJsonItWasMadeOf) {
  const std::vector<std::vector<std::string>> cases = {
      {"llama", "gpt2", "llama-bpe"}, {"qwen3", "gpt2", "qwen2"}, {"gemma3", "llama", "default"}};
  for (const auto& names : cases) {
    const auto tokenizer = Tokenizer::Load(AsGguf(names[0], names[1], names[2]));
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    ExpectGolden(**tokenizer, "tokenizers/" + names[0] + "/golden.json");
  }
}

TEST(GgufTokenizer, EveryKnownRuleForWordsMakesATokenizerThatLosesNothing) {
  model_files::TokenizerFiles files = AsGguf("qwen3", "gpt2", "");
  for (const char* pre :
       {"llama-bpe", "qwen2", "qwen35", "tekken", "gpt-4o", "deepseek-llm", "deepseek-v3", "smollm",
        "gpt-2", "falcon", "default", "", "chatglm-bpe", "no-such-rule"}) {
    files.gguf->pre = pre;
    const auto tokenizer = Tokenizer::Load(files);
    ASSERT_TRUE(tokenizer.has_value()) << pre << tokenizer.error().message;
    for (const Json& golden : ReadFixture("tokenizers/qwen3/golden.json")) {
      const auto text = golden["text"].get<std::string>();
      const bool normalizes = PreTokenizerNamed(pre).normalize_nfc;
      const Ids ids = (*tokenizer)->Encode(text, Tokenizer::SpecialTokens::kParse, false).value();
      EXPECT_EQ((*tokenizer)->Decode(ids, false).value(),
                normalizes ? golden["decoded"].get<std::string>() : text)
          << pre;
    }
  }
}

TEST(GgufTokenizer, RefusesVocabulariesItCannotRead) {
  model_files::TokenizerFiles files = AsGguf("qwen3", "bert", "");
  auto tokenizer = Tokenizer::Load(files);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_NE(tokenizer.error().message.find("\"bert\""), std::string::npos);
  files = AsGguf("gemma3", "llama", "default");
  files.gguf->scores.pop_back();
  tokenizer = Tokenizer::Load(files);
  ASSERT_FALSE(tokenizer.has_value());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kBadModel);
}

// Golden ids of the published tokenizer.json files; the models themselves are fetched, not part of
// the source.
void ExpectRealModel(const std::string& file_name, const std::string& golden) {
  const auto path = std::filesystem::path(EMBERBANK_SOURCE_DIR) / "models" / file_name;
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "models/" << file_name << " is not there; scripts/fetch_models fetches it.";
  }
  const auto source = model_files::OpenModel(path);
  ASSERT_TRUE(source.has_value()) << source.error().message;
  const auto tokenizer = Tokenizer::Load(source->tokenizer);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  ExpectGolden(**tokenizer, golden);
}

TEST(GgufTokenizer, AgreesWithThePublishedTokenizerOfSmolLm2) {
  ExpectRealModel("SmolLM2-135M-Instruct.Q4_1.gguf", "tokenizers/real/smollm2.json");
}

TEST(GgufTokenizer, AgreesWithThePublishedTokenizerOfGemma3) {
  ExpectRealModel("gemma-3-270m-q4_k_m.gguf", "tokenizers/real/gemma3.json");
}

}  // namespace
}  // namespace chat
