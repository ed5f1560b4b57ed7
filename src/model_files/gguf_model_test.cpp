#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model_files/gguf_families.h"
#include "model_files/model_source.h"
#include "model_files/test_support.h"

namespace model_files {
namespace {

using test::GgufWriter;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

Result<ModelSource> Open(const test::TempFolder& folder, const GgufWriter& writer) {
  return OpenModel(folder.Write("small.gguf", writer.Finish()));
}

TEST(GgufModel, LlamaIsToldAsItsConfigJsonWould) {
  const test::TempFolder folder;
  const auto model = Open(folder, test::SmallModel("llama"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "small");
  EXPECT_EQ(model->format, ModelFormat::kGguf);
  EXPECT_EQ(model->model_type, "llama");
  EXPECT_EQ(model->context_length, 512);
  const Json& c = model->config;
  EXPECT_EQ(c["hidden_size"], 32);
  EXPECT_EQ(c["intermediate_size"], 64);
  EXPECT_EQ(c["num_hidden_layers"], 2);
  EXPECT_EQ(c["num_attention_heads"], 4);
  EXPECT_EQ(c["num_key_value_heads"], 2);
  EXPECT_EQ(c["head_dim"], 8);
  EXPECT_EQ(c["vocab_size"], 5);
  EXPECT_EQ(c["rope_theta"], 5000.0);
  EXPECT_EQ(c["hidden_act"], "silu");
  EXPECT_EQ(c["tie_word_embeddings"], true);
  EXPECT_FALSE(c.contains("rope_scaling"));
  EXPECT_EQ(static_cast<float>(c["rms_norm_eps"].get<double>()), 1e-6F);
}

TEST(GgufModel, LlamaTensorsGetTheirNamesAndPermutedHeads) {
  const test::TempFolder folder;
  const auto model = Open(folder, test::SmallModel("llama").Zeros("output.weight", {32, 5}));
  ASSERT_TRUE(model) << model.error().message;
  for (const char* name : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                           "model.layers.1.input_layernorm.weight",
                           "model.layers.0.post_attention_layernorm.weight"}) {
    EXPECT_TRUE(model->tensors.contains(name)) << name;
  }
  EXPECT_EQ(model->tensors.at("lm_head.weight").stored_name, "output.weight");
  EXPECT_EQ(model->config["tie_word_embeddings"], false);
  EXPECT_EQ(model->permuted_heads.size(), 4U);
  EXPECT_EQ(model->permuted_heads.at("model.layers.0.self_attn.q_proj.weight"), 4);
  EXPECT_EQ(model->permuted_heads.at("model.layers.1.self_attn.k_proj.weight"), 2);
  EXPECT_FALSE(model->norm_weights_include_one);
}

TEST(GgufModel, Llama3FrequencyFactorsMoveFromTheTensorsToTheConfig) {
  const test::TempFolder folder;
  const std::string factors =
      test::Packed(1.0F) + test::Packed(2.0F) + test::Packed(8.0F) + test::Packed(8.0F);
  const auto model =
      Open(folder, test::SmallModel("llama").Tensor("rope_freqs.weight", {4}, 0, factors));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config["rope_freq_factors"], Json({1.0, 2.0, 8.0, 8.0}));
  EXPECT_FALSE(model->tensors.contains("rope_freqs.weight"));
  const auto zeros = Open(folder, test::SmallModel("llama").Zeros("rope_freqs.weight", {4}));
  ASSERT_FALSE(zeros);
  EXPECT_THAT(zeros.error().message, HasSubstr("rope_freqs.weight"));
}

TEST(GgufModel, RopeScalingIsTranslated) {
  const test::TempFolder folder;
  const auto linear = Open(folder, test::SmallModel("qwen3")
                                       .Set("qwen3.rope.scaling.type", "linear")
                                       .Set("qwen3.rope.scaling.factor", 8.0F));
  ASSERT_TRUE(linear) << linear.error().message;
  EXPECT_EQ(linear->config["rope_scaling"], Json({{"rope_type", "linear"}, {"factor", 8.0}}));
  EXPECT_TRUE(linear->permuted_heads.empty());
  const auto yarn = Open(folder, test::SmallModel("qwen3")
                                     .Set("qwen3.rope.scaling.type", "yarn")
                                     .Set("qwen3.rope.scaling.factor", 4.0F)
                                     .Set("qwen3.rope.scaling.original_context_length", 128U));
  ASSERT_TRUE(yarn);
  EXPECT_EQ(yarn->config["rope_scaling"]["rope_type"], "yarn");
  EXPECT_EQ(yarn->config["rope_scaling"]["original_max_position_embeddings"], 128);
  const auto none = Open(folder, test::SmallModel("qwen3").Set("qwen3.rope.scaling.type", "none"));
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->config.contains("rope_scaling"));
}

TEST(GgufModel, Gemma3HasItsNormsItsWindowAndItsLayerTypes) {
  const test::TempFolder folder;
  GgufWriter w = test::SmallModel("gemma3");
  w.Set("gemma3.attention.key_length", 16U).Set("gemma3.attention.sliding_window", 64U);
  w.Set("gemma3.attention.sliding_window_pattern", 2U);
  w.Zeros("blk.0.post_attention_norm.weight", {32}).Zeros("blk.0.post_ffw_norm.weight", {32});
  const auto model = Open(folder, w);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->model_type, "gemma3_text");
  EXPECT_TRUE(model->norm_weights_include_one);
  const Json& c = model->config;
  EXPECT_EQ(c["head_dim"], 16);
  EXPECT_EQ(c["query_pre_attn_scalar"], 16);
  EXPECT_EQ(c["sliding_window"], 64);
  EXPECT_EQ(c["rope_local_base_freq"], 10000.0);
  EXPECT_EQ(c["hidden_activation"], "gelu_pytorch_tanh");
  EXPECT_EQ(c["layer_types"], Json({"sliding_attention", "full_attention"}));
  for (const char* name : {"model.layers.0.post_attention_layernorm.weight",
                           "model.layers.0.pre_feedforward_layernorm.weight",
                           "model.layers.0.post_feedforward_layernorm.weight"}) {
    EXPECT_TRUE(model->tensors.contains(name)) << name;
  }
  EXPECT_EQ(model->tensors.at("model.layers.0.pre_feedforward_layernorm.weight").stored_name,
            "blk.0.ffn_norm.weight");
}

TEST(GgufModel, OneGemma3LayerOfSixSeesEverythingWhenTheFileDoesNotSay) {
  const test::TempFolder folder;
  GgufWriter w = test::SmallModel("gemma3");
  w.Set("gemma3.attention.sliding_window", 64U);
  const auto model = Open(folder, w);
  ASSERT_TRUE(model);
  EXPECT_EQ(model->config["layer_types"], Json({"sliding_attention", "sliding_attention"}));
}

TEST(GgufModel, AnUnknownArchitectureKeepsItsName) {
  const test::TempFolder folder;
  const auto model = Open(folder, test::SmallModel("starling"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->model_type, "starling");
  EXPECT_TRUE(model->tensors.contains("blk.0.attn_q.weight"));
}

TEST(GgufModel, AMissingSizeIsNamed) {
  const test::TempFolder folder;
  GgufWriter w;
  w.Set("general.architecture", "llama").Set("llama.embedding_length", 32U);
  const auto model = Open(folder, w);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kBadModel);
  EXPECT_THAT(model.error().message, HasSubstr("llama.attention.head_count"));
}

TEST(GgufModel, MoreLayersThanTensorsAreRefused) {
  const test::TempFolder folder;
  GgufWriter w = test::SmallModel("gemma3");
  w.Set("gemma3.attention.key_length", 8U);
  std::string bytes = w.Finish();
  const std::string key = test::GgufWriter::Text("gemma3.block_count") + test::Packed(4U);
  bytes.replace(bytes.find(key) + key.size(), 4, test::Packed(2000000000U));
  const auto model = OpenModel(folder.Write("small.gguf", bytes));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("gemma3.block_count"));
}

TEST(GgufModel, TheVocabularyAndTheSpecialTokensAreRead) {
  const test::TempFolder folder;
  const auto model = Open(folder, test::SmallModel("qwen3")
                                      .Set("tokenizer.ggml.add_bos_token", false)
                                      .Set("tokenizer.chat_template.tool_use", "tools"));
  ASSERT_TRUE(model) << model.error().message;
  const TokenizerFiles& t = model->tokenizer;
  ASSERT_TRUE(t.gguf);
  EXPECT_EQ(t.gguf->model, "gpt2");
  EXPECT_EQ(t.gguf->pre, "qwen2");
  EXPECT_EQ(t.gguf->tokens.size(), 5U);
  EXPECT_THAT(t.gguf->token_types, ElementsAre(1, 1, 3, 3, 3));
  EXPECT_THAT(t.gguf->merges, ElementsAre("a b"));
  EXPECT_EQ(t.gguf->add_bos, false);
  EXPECT_EQ(t.gguf->add_eos, std::nullopt);
  EXPECT_EQ(t.bos_token, "<|im_start|>");
  EXPECT_FALSE(t.chat_template);
  EXPECT_EQ(t.named_templates.at("tool_use"), "tools");
}

TEST(GgufModel, ListsOfUnequalLengthAreRefused) {
  const test::TempFolder folder;
  const auto model = Open(
      folder, test::SmallModel("qwen3").Set("tokenizer.ggml.scores", std::vector<float>{1.0F}));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("tokenizer.ggml.scores"));
}

TEST(GgufModel, EndTokensAreThoseOfTheMetadataAndTheKnownOnes) {
  const test::TempFolder folder;
  const auto with_template = Open(folder, test::SmallModel("qwen3")
                                              .Set("tokenizer.ggml.eos_token_id", 1U)
                                              .Set("tokenizer.chat_template", "{{ m }}<|im_end|>"));
  ASSERT_TRUE(with_template);
  EXPECT_THAT(with_template->eos_token_ids, UnorderedElementsAre(1, 3, 4));
  const auto other_template =
      Open(folder, test::SmallModel("qwen3").Set("tokenizer.chat_template", "{{ m }}"));
  ASSERT_TRUE(other_template);
  EXPECT_THAT(other_template->eos_token_ids, UnorderedElementsAre(4));
}

TEST(GgufModel, AProjectorIsNoModel) {
  const test::TempFolder folder;
  const auto model = Open(folder, GgufWriter().Set("general.architecture", "clip"));
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("projector"));
}

TEST(GgufNames, OnlyPlainLayerNumbersAreTranslated) {
  const GgufFamily* llama = FindGgufFamily("llama");
  ASSERT_NE(llama, nullptr);
  EXPECT_EQ(TranslateTensorName(*llama, "blk.12.attn_q.bias"),
            "model.layers.12.self_attn.q_proj.bias");
  for (const char* name : {"blk.x.attn_q.weight", "blk.01.attn_q.weight", "blk.-1.attn_q.weight",
                           "blk.1", "blk..attn_q.weight", "blk.1.unheard.weight", "plain", ""}) {
    EXPECT_EQ(TranslateTensorName(*llama, name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace model_files
