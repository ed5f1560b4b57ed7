#include "app/script_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace app {
namespace {

std::shared_ptr<const chat::Tokenizer> LoadTokenizer(const std::string& name) {
  std::ifstream input(EMBERBANK_SOURCE_DIR "/tests/fixtures/tokenizers/" + name +
                      "/tokenizer.json");
  std::ostringstream json;
  json << input.rdbuf();
  model_files::TokenizerFiles files;
  files.tokenizer_json = json.str();
  const auto tokenizer = chat::Tokenizer::Load(files);
  return tokenizer ? *tokenizer : nullptr;
}

std::string Write(const std::string& content) {
  const std::string path = testing::TempDir() + "/script.json";
  std::ofstream(path) << content;
  return path;
}

class Script : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    tokenizer_ = LoadTokenizer(GetParam());
    ASSERT_NE(tokenizer_, nullptr);
  }
  std::shared_ptr<const chat::Tokenizer> tokenizer_;
};

TEST_P(Script, TokensStandForExactlyTheBytes) {
  const std::string added(tokenizer_->added_tokens().front().text);
  for (const std::string& bytes :
       {std::string("Hello, world"), std::string(" leading"), std::string("\xE2\x82"),
        std::string("\xAC tail"), std::string("\xFF"), "a" + added + "b\xC3" + added}) {
    const Result<std::vector<TokenId>> tokens = TokensOfBytes(bytes, *tokenizer_);
    ASSERT_TRUE(tokens) << tokens.error().message;
    std::string joined;
    for (const TokenId token : *tokens) {
      joined += tokenizer_->TokenBytes(token);
    }
    EXPECT_EQ(joined, bytes);
  }
}

TEST_P(Script, TextOfASpecialTokenBecomesIt) {
  const chat::Tokenizer::AddedToken& added = tokenizer_->added_tokens().front();
  for (const std::string& before : {std::string("a"), std::string("a\xC3")}) {
    const Result<std::vector<TokenId>> tokens =
        TokensOfBytes(before + std::string(added.text), *tokenizer_);
    ASSERT_TRUE(tokens);
    EXPECT_EQ(tokens->back(), added.id);
  }
}

TEST_P(Script, AFileIsReadWhole) {
  const Result<ScriptFile> file =
      ReadScript(Write(R"({"chunks_hex": ["6869", "e2", "82ac"], "finish": "engine_error",
               "prefill_delay_s": 0.5})"),
                 *tokenizer_, 7);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->script.fails_at_end);
  EXPECT_EQ(file->script.eos, 7);
  EXPECT_EQ(file->script.prefill_delay_s, 0.5);
  std::string joined;
  for (const TokenId token : file->script.tokens) {
    joined += tokenizer_->TokenBytes(token);
  }
  EXPECT_EQ(joined, "hi\xE2\x82\xAC");
}

TEST_P(Script, ABadFileIsNamed) {
  for (const char* content :
       {"", "[]", "{}", R"({"chunks": "x"})", R"({"chunks": [1]})", R"({"chunks_hex": ["6"]})",
        R"({"chunks": [], "finish": "later"})", R"({"chunks": [], "prefill_delay_s": -1})"}) {
    const std::string path = Write(content);
    const Result<ScriptFile> file = ReadScript(path, *tokenizer_, 0);
    ASSERT_FALSE(file) << content;
    EXPECT_NE(file.error().message.find(path), std::string::npos);
  }
  EXPECT_FALSE(ReadScript("/nowhere.json", *tokenizer_, 0));
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, Script, testing::Values("llama", "qwen3", "gemma3"));

}  // namespace
}  // namespace app
