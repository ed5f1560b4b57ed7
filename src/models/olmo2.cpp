// OLMo 2 (Ai2 2024) and OLMo 3 (2025): norms after the blocks and none before them, q and k
// normalised over all their heads together. In OLMo 3 three of four layers have a sliding window,
// and only the others' RoPE is scaled. Source: transformers' models/olmo2 and models/olmo3.

#include <mlx/array.h>
#include <mlx/ops.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/shared_decoder.h"
#include "models/shared_layers.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::olmo2 {
namespace {

namespace mx = mlx::core;

struct Config : DecoderConfig {
  ops::RopeSpec local_rope = {};  // of sliding layers
  bool biased = false;
};

std::vector<int> ReadWindows(const Json& json, ConfigReader& reader, int n_layers) {
  constexpr int kUsualWindow = 4096;
  constexpr int kPeriod = 4;
  return LayerWindows(json, reader, n_layers, reader.Size("sliding_window", kUsualWindow),
                      [](int layer) { return (layer + 1) % kPeriod == 0; });
}

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  Config config{ReadDecoderConfig(reader, weights, {.norm_eps = 1e-5})};
  config.biased = reader.Flag("attention_bias", false);
  const bool slides = reader.Text("model_type", "olmo2") == "olmo3";
  if (slides) {
    config.windows = ReadWindows(json, reader, config.n_layers);
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  const double default_theta = slides ? 5e5 : 1e4;
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = default_theta});
  if (!rope) {
    return Fail(rope.error());
  }
  Result<ops::RopeSpec> local_rope = ReadRope(json, {.head_dim = config.head_dim,
                                                     .default_theta = default_theta,
                                                     .layer_type = "sliding_attention",
                                                     .scaled = false});
  if (!local_rope) {
    return Fail(local_rope.error());
  }
  config.rope = std::move(*rope);
  config.local_rope = std::move(*local_rope);
  return config;
}

struct Layer {
  AttentionBlock attention;
  mx::array post_attention_norm;  // [hidden]
  GatedMlp mlp;
  mx::array post_mlp_norm;  // [hidden]
};

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, const std::string& prefix,
                        int index) {
  const Result<std::vector<mx::array>> norms =
      LoadNorms(weights, prefix, {"post_attention_layernorm", "post_feedforward_layernorm"},
                config.hidden_size);
  if (!norms) {
    return Fail(norms.error());
  }
  Result<AttentionBlock> attention = LoadAttention(weights, prefix + "self_attn.",
                                                   {.spec = config.Attention(index),
                                                    .hidden_size = config.hidden_size,
                                                    .norms = QkNorms::kAllHeads,
                                                    .qkv_biases = config.biased});
  if (!attention) {
    return Fail(attention.error());
  }
  Result<GatedMlp> mlp = LoadGatedMlp(
      weights, prefix + "mlp.",
      {.hidden_size = config.hidden_size, .intermediate_size = config.intermediate_size});
  if (!mlp) {
    return Fail(mlp.error());
  }
  return Layer{.attention = std::move(*attention),
               .post_attention_norm = (*norms)[0],
               .mlp = std::move(*mlp),
               .post_mlp_norm = (*norms)[1]};
}

class Olmo2 final : public Model {
 public:
  Olmo2(const ops::Context& context, Config config, DecoderParts<Layer> parts)
      : context_(context), config_(std::move(config)), parts_(std::move(parts)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupLayers(config_.windows),
            .n_kv_heads = config_.n_kv_heads,
            .head_dim = config_.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const mx::array global_angles = ops::RopeAngles(config_.rope, batch.positions);
    const mx::array local_angles = ops::RopeAngles(config_.local_rope, batch.positions);
    mx::array x = parts_.embedding.Embed(batch);  // [T, hidden]
    for (std::size_t i = 0; i < parts_.layers.size(); ++i) {
      const Layer& layer = parts_.layers[i];
      const mx::array& angles = layer.attention.spec.window == 0 ? global_angles : local_angles;
      mx::array attended = layer.attention.Attend(context_, x, angles, batch, store);
      if (i + 1 == parts_.layers.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        x = SelectLogitRows(x, batch);
      }
      x = mx::add(x, Norm((*layer.attention.output)(attended), layer.post_attention_norm));
      x = mx::add(x, Norm(layer.mlp.Apply(context_, x), layer.post_mlp_norm));
    }
    return parts_.embedding.Logits(Norm(x, parts_.final_norm));
  }

 private:
  [[nodiscard]] mx::array Norm(const mx::array& x, const mx::array& weight) const {
    return ops::RmsNorm(context_, x, weight, config_.norm_eps);
  }

  const ops::Context& context_;
  Config config_;
  DecoderParts<Layer> parts_;
};

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  Result<Config> config = ReadConfig(source.config, weights);
  if (!config) {
    return Fail(config.error());
  }
  Result<DecoderParts<Layer>> parts =
      LoadDecoderParts<Layer>(weights, *config, [&](const std::string& prefix, int index) {
        return LoadLayer(weights, *config, prefix, index);
      });
  if (!parts) {
    return Fail(parts.error());
  }
  return std::make_unique<Olmo2>(context, std::move(*config), std::move(*parts));
}

constexpr std::array<std::string_view, 2> kTypes = {"olmo2", "olmo3"};

constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] "
    "}}{{ eos_token if message['role'] == 'assistant' }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::olmo2
