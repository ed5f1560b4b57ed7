#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "engine/engine.h"

namespace {

TEST(LoadEngine, AnUnknownTypeIsRefusedWithTheKnownOnes) {
  model_files::ModelSource source;
  source.name = "some-model";
  source.model_type = "qwen_vl_moe";
  const auto engine = engine::LoadEngine(source, {});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kBadModel);
  for (const char* part :
       {"some-model", "`qwen_vl_moe`", "llama", "gemma3_text", "`qwen2` has a similar name"}) {
    EXPECT_NE(engine.error().message.find(part), std::string::npos) << engine.error().message;
  }
}

TEST(LoadEngine, AnUnknownTypeWithTheTensorsOfAKnownOneIsToldSo) {
  model_files::ModelSource source;
  source.name = "finetune";
  source.model_type = "my_own_llm";
  for (const char* part :
       {"input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj",
        "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    source.tensors[std::string("model.layers.0.") + part + ".weight"] = {};
  }
  const auto engine = engine::LoadEngine(source, {});
  ASSERT_FALSE(engine);
  for (const char* part : {"`my_own_llm`", "of a `llama`", "\"model_type\": \"llama\""}) {
    EXPECT_NE(engine.error().message.find(part), std::string::npos) << engine.error().message;
  }
}

TEST(LoadEngine, AnUnknownTextPartOfAMultimodalModelIsNamed) {
  model_files::ModelSource source;
  source.model_type = "mistral3";
  source.config = Json{{"model_type", "mistral3"}, {"text_config", {{"model_type", "mistral4"}}}};
  const auto engine = engine::LoadEngine(source, {});
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().message.find("`mistral4`"), std::string::npos) << engine.error().message;
}

TEST(LoadEngine, OtherWidthsOfKvAreUnsupported) {
  model_files::ModelSource source;
  source.model_type = "llama";
  engine::EngineOptions options;
  options.kv_bits = 5;
  const auto engine = engine::LoadEngine(source, options);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(engine.error().message.find("got 5"), std::string::npos);
}

TEST(LoadEngine, WeightsBeyondTheMemoryAreRefusedWithBothNumbers) {
  model_files::ModelSource source;
  source.model_type = "llama";
  source.weight_bytes = std::uint64_t{1} << 60U;
  const auto engine = engine::LoadEngine(source, {});
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(engine.error().message.find("but this machine has"), std::string::npos);
}

TEST(LoadEngine, AConfigWithoutSizesIsABadModelAndNoCrash) {
  for (const char* type : {"llama", "qwen2", "qwen3", "mistral", "phi3", "smollm3", "olmo2",
                           "granite", "seed_oss", "glm4", "qwen3_5"}) {
    model_files::ModelSource source;
    source.model_type = type;
    source.config = Json{{"model_type", type}};
    const auto engine = engine::LoadEngine(source, {});
    ASSERT_FALSE(engine);
    EXPECT_EQ(engine.error().code, ErrorCode::kBadModel);
    EXPECT_NE(engine.error().message.find("`hidden_size`"), std::string::npos)
        << engine.error().message;
  }
}

}  // namespace
