#include "models/shared_pre_norm.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/shared_layers.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models {
namespace {

namespace mx = mlx::core;

struct Layer {
  mx::array input_norm;  // [hidden]
  AttentionBlock attention;
  mx::array post_attention_norm;  // [hidden]
  GatedMlp mlp;
  bool rotates = true;
};

Result<Layer> LoadLayer(WeightLoader& weights, const PreNormOptions& options,
                        const std::string& prefix, int index) {
  const DecoderConfig& config = options.config;
  const Result<std::vector<mx::array>> norms = LoadNorms(
      weights, prefix, {"input_layernorm", "post_attention_layernorm"}, config.hidden_size);
  if (!norms) {
    return Fail(norms.error());
  }
  AttentionOptions attention_options = options.attention;
  attention_options.spec = config.Attention(index);
  attention_options.hidden_size = config.hidden_size;
  if (options.attention_scale) {
    attention_options.spec.scale = *options.attention_scale;
  }
  Result<AttentionBlock> attention =
      LoadAttention(weights, prefix + "self_attn.", attention_options);
  if (!attention) {
    return Fail(attention.error());
  }
  GatedMlpOptions mlp_options = options.mlp;
  mlp_options.hidden_size = config.hidden_size;
  mlp_options.intermediate_size = config.intermediate_size;
  Result<GatedMlp> mlp = LoadGatedMlp(weights, prefix + "mlp.", mlp_options);
  if (!mlp) {
    return Fail(mlp.error());
  }
  return Layer{.input_norm = (*norms)[0],
               .attention = std::move(*attention),
               .post_attention_norm = (*norms)[1],
               .mlp = std::move(*mlp),
               .rotates = !options.rotates || options.rotates(index)};
}

mx::array Scaled(const mx::array& x, float factor) {
  return factor == 1.0F ? x : mx::multiply(x, mx::array(factor));
}

class PreNormDecoder final : public Model {
 public:
  PreNormDecoder(const ops::Context& context, PreNormOptions options, DecoderParts<Layer> parts)
      : context_(context), options_(std::move(options)), parts_(std::move(parts)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupLayers(options_.config.windows),
            .n_kv_heads = options_.config.n_kv_heads,
            .head_dim = options_.config.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return options_.config.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const std::vector<Layer>& layers = parts_.layers;
    const float eps = options_.config.norm_eps;
    const mx::array angles = ops::RopeAngles(options_.config.rope, batch.positions);
    const mx::array no_turn = ops::RopeAngles({.inv_freq = {0.0F}}, batch.positions);
    const std::optional<mx::array> q_factors = QFactors(batch.positions);
    mx::array residual = Scaled(parts_.embedding.Embed(batch), options_.embedding);  // [T, hidden]
    mx::array x = ops::RmsNorm(context_, residual, layers[0].input_norm, eps);       // [T, hidden]
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      mx::array attended = layer.attention.Attend(context_, x, layer.rotates ? angles : no_turn,
                                                  batch, store, q_factors);
      if (i + 1 == layers.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        residual = SelectLogitRows(residual, batch);
      }
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, (*layer.attention.output)(attended), residual,
                          layer.post_attention_norm, eps, options_.residual);
      const mx::array& next_norm =
          i + 1 < layers.size() ? layers[i + 1].input_norm : parts_.final_norm;
      std::tie(x, residual) = ops::AddRmsNorm(context_, layer.mlp.Apply(context_, x), residual,
                                              next_norm, eps, options_.residual);
    }
    return Scaled(parts_.embedding.Logits(x), options_.logits);
  }

 private:
  // [T, 1], or nothing where all are 1: as long as no sequence is long.
  [[nodiscard]] std::optional<mx::array> QFactors(
      const std::vector<std::int32_t>& positions) const {
    if (!options_.q_factor) {
      return std::nullopt;
    }
    std::vector<float> factors;
    for (const std::int32_t position : positions) {
      factors.push_back(options_.q_factor(position));
    }
    if (std::ranges::all_of(factors, [](float factor) { return factor == 1.0F; })) {
      return std::nullopt;
    }
    return mx::array(factors.data(), {static_cast<int>(factors.size()), 1}, mx::float32);
  }

  const ops::Context& context_;
  PreNormOptions options_;
  DecoderParts<Layer> parts_;
};

}  // namespace

Result<std::unique_ptr<Model>> MakePreNormDecoder(const ops::Context& context,
                                                  WeightLoader& weights, PreNormOptions options) {
  Result<DecoderParts<Layer>> parts =
      LoadDecoderParts<Layer>(weights, options.config, [&](const std::string& prefix, int index) {
        return LoadLayer(weights, options, prefix, index);
      });
  if (!parts) {
    return Fail(parts.error());
  }
  return std::make_unique<PreNormDecoder>(context, std::move(options), std::move(*parts));
}

}  // namespace models
