#include "models/shared_qwen_hybrid.h"

#include <fmt/format.h>
#include <mlx/array.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <tuple>
#include <utility>

#include "models/shared_blocks.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"

namespace models {
namespace {

namespace mx = mlx::core;

// Out of "layer_types", else every `full_attention_interval`-th layer is full.
std::vector<bool> ReadLayers(const Json& json, ConfigReader& reader, int n_layers) {
  const int interval = reader.Size("full_attention_interval", 4);
  constexpr int kMaxLayers = 10'000;  // far above every model
  if (n_layers > kMaxLayers) {
    reader.Refuse(
        fmt::format("`num_hidden_layers` in the configuration must be at most {}, got {}.",
                    kMaxLayers, n_layers));
  }
  std::vector<bool> is_linear;
  for (int i = 0; i < std::min(n_layers, kMaxLayers); ++i) {
    is_linear.push_back((i + 1) % interval != 0);
  }
  const auto types = json.find("layer_types");
  if (types == json.end() || !types->is_array()) {
    return is_linear;
  }
  if (types->size() != is_linear.size()) {
    reader.Refuse(fmt::format(
        "`layer_types` in the configuration has {} entries, but `num_hidden_layers` is {}.",
        types->size(), n_layers));
    return is_linear;
  }
  for (std::size_t i = 0; i < is_linear.size(); ++i) {
    const Json& type = (*types)[i];
    if (type != "full_attention" && type != "linear_attention") {
      reader.Refuse(fmt::format(
          "`layer_types` in the configuration has a layer of type {}, but this family has only "
          "full_attention and linear_attention.",
          DumpJson(type)));
    }
    is_linear[i] = type == "linear_attention";
  }
  return is_linear;
}

struct Layer {
  mx::array input_norm;  // [hidden]
  // One of the two.
  std::optional<AttentionBlock> attention;
  std::optional<DeltaNet> delta_net;
  mx::array post_attention_norm;  // [hidden]
  FeedForward mlp;
};

Result<void> LoadMixer(WeightLoader& weights, const QwenHybridConfig& config,
                       const std::string& prefix, int index, Layer& layer) {
  if (config.is_linear[static_cast<std::size_t>(index)]) {
    Result<DeltaNet> net = LoadDeltaNet(weights, prefix + "linear_attn.",
                                        {.sizes = config.delta_net,
                                         .layout = config.layout,
                                         .layer = index,
                                         .hidden_size = config.hidden_size,
                                         .norm_eps = config.norm_eps});
    if (!net) {
      return Fail(net.error());
    }
    layer.delta_net = std::move(*net);
    return {};
  }
  const ops::AttentionSpec spec{.layer = index,
                                .n_heads = config.n_heads,
                                .n_kv_heads = config.n_kv_heads,
                                .head_dim = config.head_dim,
                                .scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim)),
                                .norm_eps = config.norm_eps};
  Result<AttentionBlock> attention = LoadAttention(weights, prefix + "self_attn.",
                                                   {.spec = spec,
                                                    .hidden_size = config.hidden_size,
                                                    .norms = QkNorms::kPerHead,
                                                    .zero_centred_norms = config.zero_centred,
                                                    .output_gate = true});
  if (!attention) {
    return Fail(attention.error());
  }
  layer.attention = std::move(*attention);
  return {};
}

Result<Layer> LoadLayer(WeightLoader& weights, const QwenHybridConfig& config,
                        const std::string& prefix, int index) {
  const WeightLoader::NormOptions norms{.zero_centred = config.zero_centred};
  const Result<mx::array> input_norm =
      weights.Norm(prefix + "input_layernorm", config.hidden_size, norms);
  if (!input_norm) {
    return Fail(input_norm.error());
  }
  const Result<mx::array> post_norm =
      weights.Norm(prefix + "post_attention_layernorm", config.hidden_size, norms);
  if (!post_norm) {
    return Fail(post_norm.error());
  }
  Result<FeedForward> mlp = LoadFeedForward(
      weights, prefix + "mlp.",
      config.is_sparse[static_cast<std::size_t>(index)] ? &config.moe : nullptr,
      {.hidden_size = config.hidden_size, .intermediate_size = config.intermediate_size});
  if (!mlp) {
    return Fail(mlp.error());
  }
  Layer layer{.input_norm = *input_norm,
              .attention = {},
              .delta_net = {},
              .post_attention_norm = *post_norm,
              .mlp = std::move(*mlp)};
  if (Result<void> mixer = LoadMixer(weights, config, prefix, index, layer); !mixer) {
    return Fail(mixer.error());
  }
  return layer;
}

class QwenHybrid final : public Model {
 public:
  QwenHybrid(const ops::Context& context, QwenHybridConfig config, Embedding embedding,
             std::vector<Layer> layers, mx::array final_norm)
      : context_(context),
        config_(std::move(config)),
        embedding_(std::move(embedding)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupHybridLayers(config_.is_linear, config_.delta_net),
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
      mx::array mixed = layer.attention ? layer.attention->Attend(context_, x, angles, batch, store)
                                        : layer.delta_net->Mix(context_, x, batch, store);
      if (i + 1 == layers_.size()) {
        // Nothing after the last state is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return mixed;
        }
        mixed = SelectLogitRows(mixed, batch);
        residual = SelectLogitRows(residual, batch);
      }
      const ops::Linear& output =
          layer.attention ? *layer.attention->output : *layer.delta_net->output;
      std::tie(x, residual) = ops::AddRmsNorm(context_, output(mixed), residual,
                                              layer.post_attention_norm, config_.norm_eps);
      const mx::array& next_norm = i + 1 < layers_.size() ? layers_[i + 1].input_norm : final_norm_;
      std::tie(x, residual) = ops::AddRmsNorm(context_, layer.mlp.Apply(context_, x), residual,
                                              next_norm, config_.norm_eps);
    }
    return embedding_.Logits(x);
  }

 private:
  const ops::Context& context_;
  QwenHybridConfig config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

Result<std::vector<Layer>> LoadLayers(WeightLoader& weights, const QwenHybridConfig& config,
                                      const std::string& prefix) {
  std::vector<Layer> layers;
  for (int i = 0; i < config.n_layers; ++i) {
    Result<Layer> layer = LoadLayer(weights, config, prefix + std::to_string(i) + ".", i);
    if (!layer) {
      return Fail(layer.error());
    }
    layers.push_back(std::move(*layer));
  }
  return layers;
}

}  // namespace

QwenNames FindQwenNames(const WeightLoader& weights) {
  if (weights.Has("language_model.model.embed_tokens")) {
    return {.model = "language_model.model.", .head = "language_model.lm_head"};
  }
  if (weights.Has("model.language_model.embed_tokens")) {
    return {.model = "model.language_model.", .head = "lm_head"};
  }
  return {};
}

QwenHybridConfig ReadQwenHybridConfig(const Json& json, ConfigReader& reader,
                                      std::optional<int> rows) {
  QwenHybridConfig config;
  config.hidden_size = reader.Size("hidden_size");
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim = reader.Size("head_dim", 256);
  config.vocab_size = reader.Size("vocab_size", rows);
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", 1e-6));
  config.tied = reader.Flag("tie_word_embeddings", false);
  config.is_linear = ReadLayers(json, reader, config.n_layers);
  config.is_sparse.assign(config.is_linear.size(), false);
  config.delta_net = ReadDeltaNetSizes(reader);
  if (const std::string activation = reader.Text("hidden_act", "silu"); activation != "silu") {
    reader.Refuse(fmt::format(
        "`hidden_act` in the configuration must be silu for this family, got {}.", activation));
  }
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  return config;
}

MoeOptions ReadQwenExperts(ConfigReader& reader, int hidden_size) {
  MoeOptions moe{.routing = {.n_experts = reader.Size("num_experts"),
                             .n_chosen = reader.Size("num_experts_per_tok"),
                             .normalised = reader.Flag("norm_topk_prob", true)},
                 .hidden_size = hidden_size,
                 .intermediate_size = reader.Size("moe_intermediate_size")};
  moe.shared_name = "shared_expert";
  moe.shared_intermediate_size = reader.Size("shared_expert_intermediate_size");
  moe.shared_gate_name = "shared_expert_gate";
  CheckRouting(reader, moe.routing);
  return moe;
}

Result<std::unique_ptr<Model>> MakeQwenHybrid(const ops::Context& context,
                                              const model_files::ModelSource& source,
                                              WeightLoader& weights, const Json& json,
                                              QwenHybridConfig config) {
  const QwenNames names = FindQwenNames(weights);
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e7, .default_partial = 0.25});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  config.zero_centred =
      !AnyMlxDeltaNet(weights, names.model + "layers.", config.is_linear, config.delta_net);
  Result<Embedding> embedding = LoadEmbedding(
      weights, names.model, names.head,
      {.vocab_size = config.vocab_size, .hidden_size = config.hidden_size, .tied = config.tied});
  if (!embedding) {
    return Fail(embedding.error());
  }
  Result<std::vector<Layer>> layers = LoadLayers(weights, config, names.model + "layers.");
  if (!layers) {
    return Fail(layers.error());
  }
  const Result<mx::array> final_norm =
      weights.Norm(names.model + "norm", config.hidden_size, {.zero_centred = config.zero_centred});
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return IsBesideTheTextModel(name) || (config.tied && name.starts_with(names.head + "."));
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  LogUnusedMtp(source);
  return std::make_unique<QwenHybrid>(context, config, std::move(*embedding), std::move(*layers),
                                      *final_norm);
}

}  // namespace models
