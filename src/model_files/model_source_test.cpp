#include "model_files/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_files/end_tokens.h"
#include "model_files/test_support.h"

namespace model_files {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

std::string OneTensor() {
  return test::Safetensors(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", "1234");
}

constexpr const char* kTokenizer =
    R"({"version":"1.0","added_tokens":[{"id":7,"content":"<|im_end|>","special":true},)"
    R"({"id":8,"content":"<|endoftext|>"},{"id":9,"content":"<|end|>"}],"model":{"vocab":{"a":1}}})";

// A complete small model; tests change one file of it.
void WriteModel(const test::TempFolder& folder) {
  folder.Write("m/config.json",
               R"({"model_type":"qwen3","max_position_embeddings":99,"eos_token_id":5})");
  folder.Write("m/model.safetensors", OneTensor());
  folder.Write("m/tokenizer.json", kTokenizer);
  folder.Write(
      "m/tokenizer_config.json",
      R"({"eos_token":{"content":"<|endoftext|>"},"bos_token":"<s>","chat_template":"x<|im_end|>"})");
  folder.Write("m/generation_config.json",
               R"({"eos_token_id":[5,6],"temperature":0.6,"top_p":0.95,"top_k":20,"min_p":7})");
}

std::string MessageFor(const std::filesystem::path& path) {
  const auto model = OpenModel(path);
  return model ? "" : model.error().message;
}

TEST(OpenModel, ADirectoryGivesConfigTensorsTokenizerAndDefaults) {
  const test::TempFolder folder;
  WriteModel(folder);
  const auto model = OpenModel(folder.path() / "m");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "m");
  EXPECT_EQ(model->format, ModelFormat::kHuggingFace);
  EXPECT_EQ(model->model_type, "qwen3");
  EXPECT_EQ(model->context_length, 99);
  EXPECT_EQ(model->quantization, "F16");
  EXPECT_EQ(model->weight_bytes, 4U);
  EXPECT_EQ(model->tokenizer.tokenizer_json, kTokenizer);
  EXPECT_EQ(model->tokenizer.chat_template, "x<|im_end|>");
  EXPECT_EQ(model->tokenizer.eos_token, "<|endoftext|>");
  EXPECT_EQ(model->tokenizer.bos_token, "<s>");
  EXPECT_EQ(model->generation_defaults.temperature, 0.6);
  EXPECT_EQ(model->generation_defaults.top_k, 20);
  EXPECT_EQ(model->generation_defaults.min_p, std::nullopt);  // 7 is no probability
}

TEST(OpenModel, EndTokensAreTheUnionOfConfigGenerationConfigAndTokenizer) {
  const test::TempFolder folder;
  WriteModel(folder);
  const auto model = OpenModel(folder.path() / "m");
  ASSERT_TRUE(model);
  EXPECT_THAT(model->eos_token_ids, ElementsAre(5, 6, 7, 8));
}

TEST(OpenModel, TemplateFilesWinOverTheTokenizerConfig) {
  const test::TempFolder folder;
  WriteModel(folder);
  folder.Write(
      "m/tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"d"},{"name":"tool_use","template":"t"}]})");
  const auto listed = OpenModel(folder.path() / "m");
  ASSERT_TRUE(listed);
  EXPECT_EQ(listed->tokenizer.chat_template, "d");
  EXPECT_EQ(listed->tokenizer.named_templates.at("tool_use"), "t");
  folder.Write("m/chat_template.json", R"({"chat_template":"json"})");
  EXPECT_EQ(OpenModel(folder.path() / "m")->tokenizer.chat_template, "json");
  folder.Write("m/chat_template.jinja", "jinja");
  folder.Write("m/additional_chat_templates/rag.jinja", "r");
  const auto files = OpenModel(folder.path() / "m");
  ASSERT_TRUE(files);
  EXPECT_EQ(files->tokenizer.chat_template, "jinja");
  EXPECT_EQ(files->tokenizer.named_templates.at("rag"), "r");
}

TEST(OpenModel, SpecialTokensMapFillsWhatTheTokenizerConfigLeavesOut) {
  const test::TempFolder folder;
  WriteModel(folder);
  folder.Write("m/tokenizer_config.json", R"({"eos_token":null,"bos_token":"<s>"})");
  folder.Write("m/special_tokens_map.json",
               R"({"eos_token":{"content":"</s>"},"bos_token":"other"})");
  const auto model = OpenModel(folder.path() / "m");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tokenizer.eos_token, "</s>");
  EXPECT_EQ(model->tokenizer.bos_token, "<s>");
}

TEST(OpenModel, MlxQuantisationIsNamed) {
  const test::TempFolder folder;
  WriteModel(folder);
  folder.Write(
      "m/config.json",
      R"({"model_type":"llama","quantization":{"bits":4,"group_size":64,"lm_head":{"bits":6,"group_size":64}}})");
  const auto model = OpenModel(folder.path() / "m");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->format, ModelFormat::kMlx);
  EXPECT_EQ(model->quantization, "affine 4-bit g64, mixed");
}

TEST(OpenModel, WhatIsMissingOrDamagedIsNamed) {
  const test::TempFolder folder;
  WriteModel(folder);
  const std::filesystem::path m = folder.path() / "m";
  EXPECT_THAT(MessageFor(folder.path() / "nothing"), HasSubstr("nothing"));
  folder.Write("m/config.json", "{");
  EXPECT_THAT(MessageFor(m), HasSubstr("config.json` is damaged"));
  folder.Write("m/config.json", "[1]");
  EXPECT_THAT(MessageFor(m), HasSubstr("no JSON object"));
  folder.Write("m/config.json", R"({"hidden_size":3})");
  EXPECT_THAT(MessageFor(m), HasSubstr("model_type"));
  WriteModel(folder);
  std::filesystem::remove(m / "tokenizer.json");
  EXPECT_THAT(MessageFor(m), HasSubstr("no tokenizer.json"));
  folder.Write("m/tokenizer.model", "x");
  EXPECT_THAT(MessageFor(m), HasSubstr("only a tokenizer.model"));
  WriteModel(folder);
  std::filesystem::remove(m / "model.safetensors");
  EXPECT_THAT(MessageFor(m), HasSubstr("no .safetensors file"));
  std::filesystem::remove(m / "config.json");
  EXPECT_THAT(MessageFor(m), HasSubstr("neither a config.json nor a .gguf file"));
  folder.Write("m/adapter_config.json", "{}");
  EXPECT_THAT(MessageFor(m), HasSubstr("LoRA adapter"));
}

TEST(OpenModel, ADirectoryOfOneGgufFileOpensItAndOfSeveralListsThem) {
  const test::TempFolder folder;
  folder.Write("d/one.gguf", test::SmallModel("llama").Finish());
  folder.Write("d/mmproj-one.gguf", "GGUF");
  folder.Write("d/config.json", "{}");
  const auto one = OpenModel(folder.path() / "d");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_EQ(one->name, "one");
  folder.Write("d/two.gguf", test::SmallModel("llama").Finish());
  EXPECT_THAT(MessageFor(folder.path() / "d"), HasSubstr("name one of one.gguf, two.gguf"));
}

TEST(OpenModel, ASnapshotOfTheHubIsNamedAfterItsRepository) {
  const test::TempFolder folder;
  WriteModel(folder);
  const std::filesystem::path snapshots = folder.path() / "models--org--a--b" / "snapshots";
  std::filesystem::create_directories(snapshots);
  std::filesystem::rename(folder.path() / "m", snapshots / "0abc");
  const auto model = OpenModel(snapshots / "0abc");
  ASSERT_TRUE(model);
  EXPECT_EQ(model->name, "org/a--b");
}

TEST(EndTokens, OnlyTokensThatTheTemplateWritesEndATurn) {
  EXPECT_THAT(EndOfTurnTexts("a<|im_end|>b<|end|>"), UnorderedElementsAre("<|im_end|>", "<|end|>"));
  EXPECT_THAT(EndOfTurnTexts("<|channel|>x<|end|>y<|return|>"), UnorderedElementsAre("<|return|>"));
  EXPECT_TRUE(EndOfTurnTexts("nothing").empty());
}

TEST(EndTokens, AddedTokensAreReadWithoutTheVocabularyBehindThem) {
  const auto tokens = ReadAddedTokens(
      R"({"added_tokens":[{"id":3,"content":"x"},{"content":"y","id":4}],"model":{ this is never read)");
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokens[0].text, "x");
  EXPECT_EQ(tokens[1].id, 4);
  EXPECT_TRUE(ReadAddedTokens(R"({"model":{"added_tokens":[{"id":3,"content":"x"}]}})").empty());
  EXPECT_TRUE(ReadAddedTokens("").empty());
}

}  // namespace
}  // namespace model_files
