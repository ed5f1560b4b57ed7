// Llama (Touvron et al. 2023; Grattafiori et al. 2024) and what shares its shape, SmolLM2 among
// them: pre-norm layers, grouped-query attention with RoPE, SwiGLU.

#include <mlx/array.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_layers.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::llama {
namespace {

namespace mx = mlx::core;

struct Config {
  int hidden_size = 0;
  int intermediate_size = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float norm_eps = 1e-6F;
  bool tied = false;
  ops::RopeSpec rope;
};

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  Config config;
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim = reader.Size("head_dim", config.hidden_size / config.n_heads);
  config.vocab_size = reader.Size("vocab_size", weights.Rows("model.embed_tokens"));
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", 1e-6));
  config.tied = reader.Flag("tie_word_embeddings", false);
  if (reader.Text("hidden_act", "silu") != "silu") {
    reader.Refuse("`hidden_act` in the configuration must be silu for a llama model.");
  }
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return config;
}

struct Layer {
  mx::array input_norm;  // [hidden]
  AttentionBlock attention;
  mx::array post_attention_norm;  // [hidden]
  GatedMlp mlp;
};

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, int index) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  Result<mx::array> input_norm = weights.Norm(prefix + "input_layernorm", config.hidden_size);
  if (!input_norm) {
    return Fail(input_norm.error());
  }
  const ops::AttentionSpec spec{.layer = index,
                                .n_heads = config.n_heads,
                                .n_kv_heads = config.n_kv_heads,
                                .head_dim = config.head_dim,
                                .scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim)),
                                .window = 0,
                                .norm_eps = config.norm_eps};
  Result<AttentionBlock> attention = LoadAttention(
      weights, prefix + "self_attn.", {.spec = spec, .hidden_size = config.hidden_size});
  if (!attention) {
    return Fail(attention.error());
  }
  Result<mx::array> post_norm =
      weights.Norm(prefix + "post_attention_layernorm", config.hidden_size);
  if (!post_norm) {
    return Fail(post_norm.error());
  }
  Result<GatedMlp> mlp = LoadGatedMlp(
      weights, prefix + "mlp.",
      {.hidden_size = config.hidden_size, .intermediate_size = config.intermediate_size});
  if (!mlp) {
    return Fail(mlp.error());
  }
  return Layer{.input_norm = *input_norm,
               .attention = std::move(*attention),
               .post_attention_norm = *post_norm,
               .mlp = std::move(*mlp)};
}

class Llama final : public Model {
 public:
  Llama(const ops::Context& context, Config config, Embedding embedding, std::vector<Layer> layers,
        mx::array final_norm)
      : context_(context),
        config_(std::move(config)),
        embedding_(std::move(embedding)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupLayers(std::vector<int>(layers_.size(), 0)),
            .n_kv_heads = config_.n_kv_heads,
            .head_dim = config_.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const mx::array angles = ops::RopeAngles(config_.rope, batch.positions);
    mx::array residual = embedding_.Embed(batch);  // [T, hidden]
    mx::array x =
        ops::RmsNorm(context_, residual, layers_[0].input_norm, config_.norm_eps);  // [T, hidden]
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      mx::array attended = layer.attention.Attend(context_, x, angles, batch, store);
      if (i + 1 == layers_.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        residual = SelectLogitRows(residual, batch);
      }
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, (*layer.attention.output)(attended), residual,
                          layer.post_attention_norm, config_.norm_eps);
      const mx::array& next_norm = i + 1 < layers_.size() ? layers_[i + 1].input_norm : final_norm_;
      std::tie(x, residual) = ops::AddRmsNorm(context_, layer.mlp.Apply(context_, x), residual,
                                              next_norm, config_.norm_eps);
    }
    return embedding_.Logits(x);
  }

 private:
  const ops::Context& context_;
  Config config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Result<Config> config = ReadConfig(source.config, weights);
  if (!config) {
    return Fail(config.error());
  }
  Result<Embedding> embedding = LoadEmbedding(
      weights, "model.", "lm_head",
      {.vocab_size = config->vocab_size, .hidden_size = config->hidden_size, .tied = config->tied});
  if (!embedding) {
    return Fail(embedding.error());
  }
  std::vector<Layer> layers;
  for (int i = 0; i < config->n_layers; ++i) {
    Result<Layer> layer = LoadLayer(weights, *config, i);
    if (!layer) {
      return Fail(layer.error());
    }
    layers.push_back(std::move(*layer));
  }
  const Result<mx::array> final_norm = weights.Norm("model.norm", config->hidden_size);
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return config->tied && name.starts_with("lm_head.");
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  return std::make_unique<Llama>(context, *config, std::move(*embedding), std::move(layers),
                                 *final_norm);
}

constexpr std::array<std::string_view, 1> kTypes = {"llama"};

// For base models, which know no special tokens of a chat: a plain transcript.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ "
    "message['content'] | trim }}\n\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::llama
