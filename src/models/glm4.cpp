// GLM-4 (Zhipu AI 2024, 2025): RoPE turns the pairs (2 i, 2 i + 1) of the first half of each head,
// q, k and v have biases, gate and up are one tensor. The 0414 models ("glm4") also normalise what
// each block adds; those before ("glm") do not. Source: transformers' models/glm4 and models/glm.

#include <mlx/array.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/shared_decoder.h"
#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::glm4 {
namespace {

namespace mx = mlx::core;

struct Config : DecoderConfig {
  bool biased = true;

  [[nodiscard]] AttentionOptions Options() const {
    return {.hidden_size = hidden_size,
            .qkv_biases = biased,
            .interleaved_dim = static_cast<int>(2 * rope.inv_freq.size())};
  }
};

constexpr std::string_view kFusedMlp = "gate_up_proj";

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  constexpr int kUsualHeadDim = 128;
  ConfigReader reader(json);
  Config config{
      ReadDecoderConfig(reader, weights, {.head_dim = kUsualHeadDim, .norm_eps = 1.5625e-07})};
  config.biased = reader.Flag("attention_bias", true);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_partial = 0.5});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return config;
}

struct Layer {
  mx::array input_norm;  // [hidden], as the other norms
  AttentionBlock attention;
  mx::array post_attention_norm;
  mx::array pre_mlp_norm;
  GatedMlp mlp;
  mx::array post_mlp_norm;
};

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, const std::string& prefix,
                        int index) {
  const Result<std::vector<mx::array>> norms =
      LoadNorms(weights, prefix,
                {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                 "post_mlp_layernorm"},
                config.hidden_size);
  if (!norms) {
    return Fail(norms.error());
  }
  AttentionOptions options = config.Options();
  options.spec = config.Attention(index);
  Result<AttentionBlock> attention = LoadAttention(weights, prefix + "self_attn.", options);
  if (!attention) {
    return Fail(attention.error());
  }
  Result<GatedMlp> mlp = LoadGatedMlp(weights, prefix + "mlp.",
                                      {.hidden_size = config.hidden_size,
                                       .intermediate_size = config.intermediate_size,
                                       .fused_name = std::string(kFusedMlp)});
  if (!mlp) {
    return Fail(mlp.error());
  }
  return Layer{.input_norm = (*norms)[0],
               .attention = std::move(*attention),
               .post_attention_norm = (*norms)[1],
               .pre_mlp_norm = (*norms)[2],
               .mlp = std::move(*mlp),
               .post_mlp_norm = (*norms)[3]};
}

class Glm4 final : public Model {
 public:
  Glm4(const ops::Context& context, Config config, DecoderParts<Layer> parts)
      : context_(context), config_(std::move(config)), parts_(std::move(parts)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupLayers(config_.windows),
            .n_kv_heads = config_.n_kv_heads,
            .head_dim = config_.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const std::vector<Layer>& layers = parts_.layers;
    const float eps = config_.norm_eps;
    const mx::array angles = ops::RopeAngles(config_.rope, batch.positions);
    mx::array residual = parts_.embedding.Embed(batch);  // [T, hidden]
    mx::array x = Norm(residual, layers[0].input_norm);  // [T, hidden]
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      mx::array attended = layer.attention.Attend(context_, x, angles, batch, store);
      if (i + 1 == layers.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        residual = SelectLogitRows(residual, batch);
      }
      std::tie(x, residual) = ops::AddRmsNorm(
          context_, Norm((*layer.attention.output)(attended), layer.post_attention_norm), residual,
          layer.pre_mlp_norm, eps);
      const mx::array& next_norm =
          i + 1 < layers.size() ? layers[i + 1].input_norm : parts_.final_norm;
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, Norm(layer.mlp.Apply(context_, x), layer.post_mlp_norm),
                          residual, next_norm, eps);
    }
    return parts_.embedding.Logits(x);
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
  if (source.model_type == "glm") {
    AttentionOptions options = config->Options();
    return MakePreNormDecoder(context, weights,
                              {.config = std::move(*config),
                               .attention = std::move(options),
                               .mlp = {.fused_name = std::string(kFusedMlp)}});
  }
  Result<DecoderParts<Layer>> parts =
      LoadDecoderParts<Layer>(weights, *config, [&](const std::string& prefix, int index) {
        return LoadLayer(weights, *config, prefix, index);
      });
  if (!parts) {
    return Fail(parts.error());
  }
  return std::make_unique<Glm4>(context, std::move(*config), std::move(*parts));
}

constexpr std::array<std::string_view, 2> kTypes = {"glm4", "glm"};

constexpr std::string_view kFallbackTemplate =
    "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] "
    "}}{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::glm4
