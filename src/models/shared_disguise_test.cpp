#include "models/shared_disguise.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace {

using models::FindDisguised;
using Shape = std::vector<std::int64_t>;

// Two layers of a checkpoint; every matrix [128, 64].
class Checkpoint {
 public:
  Checkpoint& Add(const std::vector<std::string>& parts, const Shape& shape = {128, 64}) {
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
      for (const std::string& part : parts) {
        source_.tensors[layer + part].shape = shape;
      }
    }
    return *this;
  }
  [[nodiscard]] std::string Type() const {
    return std::string(FindDisguised(source_).value_or("none"));
  }

 private:
  model_files::ModelSource source_;
};

const std::vector<std::string> kAttention = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                             "self_attn.v_proj.weight", "self_attn.o_proj.weight"};
const std::vector<std::string> kMlp = {"mlp.gate_proj.weight", "mlp.up_proj.weight",
                                       "mlp.down_proj.weight"};
const std::vector<std::string> kNorms = {"input_layernorm.weight",
                                         "post_attention_layernorm.weight"};
const std::vector<std::string> kQkNorms = {"self_attn.q_norm.weight", "self_attn.k_norm.weight"};

Checkpoint Llama() { return Checkpoint().Add(kAttention).Add(kMlp).Add(kNorms, {64}); }

TEST(FindDisguised, TensorNamesTellTheFamily) {
  EXPECT_EQ(Llama().Type(), "llama");
  EXPECT_EQ(Llama()
                .Add({"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"})
                .Type(),
            "qwen2");
  EXPECT_EQ(Llama().Add(kQkNorms, {32}).Type(), "qwen3");
  EXPECT_EQ(Checkpoint()
                .Add(kAttention)
                .Add(kMlp)
                .Add(kQkNorms, {128})
                .Add({"post_attention_layernorm.weight", "post_feedforward_layernorm.weight"})
                .Type(),
            "olmo2");
}

TEST(FindDisguised, QuantisedMatricesAreTheSame) {
  EXPECT_EQ(Llama().Add({"mlp.up_proj.scales", "mlp.up_proj.biases"}).Type(), "llama");
}

// One name more or less, or norms of another width, is another architecture.
TEST(FindDisguised, AlmostTheSameIsNotEnough) {
  EXPECT_EQ(Llama().Add({"self_attn.sinks"}).Type(), "none");
  EXPECT_EQ(Checkpoint().Add(kAttention).Add(kMlp).Type(), "none");
  EXPECT_EQ(Llama().Add(kQkNorms, {128}).Type(), "none");
  EXPECT_EQ(Checkpoint().Type(), "none");
}

}  // namespace
