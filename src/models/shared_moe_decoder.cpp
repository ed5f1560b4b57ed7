#include "models/shared_moe_decoder.h"

#include <fmt/format.h>
#include <mlx/array.h>

#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

#include "models/shared_layers.h"
#include "ops/rms_norm/rms_norm.h"

namespace models {
namespace {

namespace mx = mlx::core;

struct Layer {
  mx::array input_norm;  // [hidden]
  // One of the two.
  std::optional<AttentionBlock> attention;
  std::optional<MlaBlock> mla;
  mx::array post_attention_norm;  // [hidden]
  FeedForward mlp;
};

Result<void> LoadMixer(WeightLoader& weights, const MoeDecoderConfig& config,
                       const std::string& prefix, int index, Layer& layer) {
  if (config.mla) {
    Result<MlaBlock> mla = LoadMla(weights, prefix, *config.mla, index, config.hidden_size);
    if (!mla) {
      return Fail(mla.error());
    }
    layer.mla = std::move(*mla);
    return {};
  }
  AttentionOptions options = config.attention;
  options.hidden_size = config.hidden_size;
  options.spec = {.layer = index,
                  .n_heads = config.n_heads,
                  .n_kv_heads = config.n_kv_heads,
                  .head_dim = config.head_dim,
                  .scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim)),
                  .window = config.windows[static_cast<std::size_t>(index)],
                  .norm_eps = config.norm_eps};
  Result<AttentionBlock> attention = LoadAttention(weights, prefix, options);
  if (!attention) {
    return Fail(attention.error());
  }
  if (config.sinks) {
    const std::string name = prefix + "sinks";  // GGUF: with an ending
    const Result<std::vector<float>> sinks =
        weights.Values(weights.Has(name) ? name + ".weight" : name, {{config.n_heads}});
    if (!sinks) {
      return Fail(sinks.error());
    }
    attention->sinks = mx::array(sinks->begin(), {config.n_heads}, mx::float32);
  }
  layer.attention = std::move(*attention);
  return {};
}

Result<Layer> LoadLayer(WeightLoader& weights, const MoeDecoderConfig& config, int index) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const auto layer = static_cast<std::size_t>(index);
  const Result<mx::array> input_norm = weights.Norm(prefix + "input_layernorm", config.hidden_size);
  if (!input_norm) {
    return Fail(input_norm.error());
  }
  const Result<mx::array> post_norm =
      weights.Norm(prefix + "post_attention_layernorm", config.hidden_size);
  if (!post_norm) {
    return Fail(post_norm.error());
  }
  Result<FeedForward> mlp = LoadFeedForward(
      weights, prefix + config.mlp_name, config.is_sparse[layer] ? &config.moe : nullptr,
      {.hidden_size = config.hidden_size, .intermediate_size = config.intermediate_size});
  if (!mlp) {
    return Fail(mlp.error());
  }
  Layer made{.input_norm = *input_norm,
             .attention = {},
             .mla = {},
             .post_attention_norm = *post_norm,
             .mlp = std::move(*mlp)};
  if (Result<void> mixer = LoadMixer(weights, config, prefix + "self_attn.", index, made); !mixer) {
    return Fail(mixer.error());
  }
  return made;
}

class MoeDecoder final : public Model {
 public:
  MoeDecoder(const ops::Context& context, MoeDecoderConfig config, Embedding embedding,
             std::vector<Layer> layers, mx::array final_norm)
      : context_(context),
        config_(std::move(config)),
        embedding_(std::move(embedding)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupLayers(config_.windows),
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
      mx::array attended = layer.mla ? layer.mla->Attend(context_, x, angles, batch, store)
                                     : layer.attention->Attend(context_, x, angles, batch, store);
      if (i + 1 == layers_.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        residual = SelectLogitRows(residual, batch);
      }
      const ops::Linear& output = layer.mla ? *layer.mla->output : *layer.attention->output;
      std::tie(x, residual) = ops::AddRmsNorm(context_, output(attended), residual,
                                              layer.post_attention_norm, config_.norm_eps);
      const mx::array& next_norm = i + 1 < layers_.size() ? layers_[i + 1].input_norm : final_norm_;
      std::tie(x, residual) = ops::AddRmsNorm(context_, layer.mlp.Apply(context_, x), residual,
                                              next_norm, config_.norm_eps);
    }
    return embedding_.Logits(x);
  }

 private:
  const ops::Context& context_;
  MoeDecoderConfig config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

}  // namespace

MoeDecoderConfig ReadMoeDecoderConfig(ConfigReader& reader, const WeightLoader& weights,
                                      const MoeDecoderDefaults& defaults) {
  MoeDecoderConfig config;
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim =
      reader.Size("head_dim", defaults.head_dim.value_or(config.hidden_size / config.n_heads));
  config.vocab_size = reader.Size("vocab_size", weights.Rows("model.embed_tokens"));
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", defaults.norm_eps));
  config.tied = reader.Flag("tie_word_embeddings", defaults.tied);
  if (const std::string activation = reader.Text("hidden_act", "silu"); activation != "silu") {
    reader.Refuse(fmt::format(
        "`hidden_act` in the configuration must be silu for this family, got {}.", activation));
  }
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  constexpr int kMaxLayers = 10'000;  // far above every model; each is listed before it is loaded
  if (config.n_layers > kMaxLayers) {
    reader.Refuse(
        fmt::format("`num_hidden_layers` in the configuration must be at most {}, got {}.",
                    kMaxLayers, config.n_layers));
    config.n_layers = kMaxLayers;
  }
  config.windows.assign(static_cast<std::size_t>(config.n_layers), 0);
  config.is_sparse.assign(static_cast<std::size_t>(config.n_layers), true);
  config.moe.hidden_size = config.hidden_size;
  return config;
}

Result<std::unique_ptr<Model>> MakeMoeDecoder(
    const ops::Context& context, WeightLoader& weights, MoeDecoderConfig config,
    const std::function<bool(std::string_view)>& ignorable) {
  Result<Embedding> embedding = LoadEmbedding(
      weights, "model.", "lm_head",
      {.vocab_size = config.vocab_size, .hidden_size = config.hidden_size, .tied = config.tied});
  if (!embedding) {
    return Fail(embedding.error());
  }
  std::vector<Layer> layers;
  for (int i = 0; i < config.n_layers; ++i) {
    Result<Layer> layer = LoadLayer(weights, config, i);
    if (!layer) {
      return Fail(layer.error());
    }
    layers.push_back(std::move(*layer));
  }
  const Result<mx::array> final_norm = weights.Norm("model.norm", config.hidden_size);
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto beside = [&](std::string_view name) {
    return (config.tied && name.starts_with("lm_head.")) || (ignorable && ignorable(name));
  };
  if (Result<void> all = weights.CheckAllTaken(beside); !all) {
    return Fail(all.error());
  }
  return std::make_unique<MoeDecoder>(context, std::move(config), std::move(*embedding),
                                      std::move(layers), *final_norm);
}

}  // namespace models
