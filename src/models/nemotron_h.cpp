// Nemotron-H (NVIDIA 2025): each layer is one thing, a Mamba-2 layer, attention without positions
// or a feed-forward part with squared ReLU. Definition: transformers, models/nemotron_h.

#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/ops.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_layers.h"
#include "models/shared_mamba2.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::nemotron_h {
namespace {

namespace mx = mlx::core;

enum class LayerKind { kMamba, kAttention, kFeedForward };

struct Config {
  int hidden_size = 0;
  int intermediate_size = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float norm_eps = 1e-5F;
  bool tied = false;
  std::vector<LayerKind> layers;
  Mamba2Sizes mamba;
  bool conv_bias = true;
};

std::optional<LayerKind> KindOf(const std::string& name) {
  if (name == "M" || name == "mamba" || name == "linear_attention") {
    return LayerKind::kMamba;
  }
  if (name == "*" || name == "attention" || name == "full_attention") {
    return LayerKind::kAttention;
  }
  if (name == "-" || name == "mlp") {
    return LayerKind::kFeedForward;
  }
  return std::nullopt;
}

// "hybrid_override_pattern", a letter a layer, or a list under one of the other names.
std::vector<LayerKind> ReadLayers(const Json& json, ConfigReader& reader) {
  std::vector<std::string> names;
  const auto pattern = json.find("hybrid_override_pattern");
  if (pattern != json.end() && pattern->is_string()) {
    for (const char letter : pattern->get<std::string>()) {
      names.emplace_back(1, letter);
    }
  } else {
    for (const char* key : {"hybrid_override_pattern", "layers_block_type", "layer_types"}) {
      const auto list = json.find(key);
      if (names.empty() && list != json.end() && list->is_array()) {
        for (const Json& name : *list) {
          names.push_back(name.is_string() ? name.get<std::string>() : DumpJson(name));
        }
      }
    }
  }
  if (names.empty() || !CheckLayerCount(reader, static_cast<int>(names.size()))) {
    reader.Refuse(
        "`hybrid_override_pattern` in the configuration must say of each layer what it is.");
    return {};
  }
  std::vector<LayerKind> layers;
  for (const std::string& name : names) {
    const std::optional<LayerKind> kind = KindOf(name);
    if (!kind) {
      reader.Refuse(fmt::format(
          "`hybrid_override_pattern` in the configuration has a layer of type {}; a nemotron_h "
          "model can have M (Mamba-2), * (attention) and - (feed-forward); one with experts (E) is "
          "not supported yet.",
          name));
      break;
    }
    layers.push_back(*kind);
  }
  return layers;
}

Mamba2Sizes ReadMamba2(const Json& json, ConfigReader& reader, float norm_eps) {
  Mamba2Sizes sizes;
  sizes.spec = {.n_heads = reader.Size("mamba_num_heads", 128),
                .n_groups = reader.Size("n_groups", 8),
                .head_dim = reader.Size("mamba_head_dim", 64),
                .d_state = reader.Size("ssm_state_size", 128),
                .norm_eps = norm_eps};
  sizes.spec.n_norms = sizes.spec.n_groups;
  sizes.conv_kernel = reader.Size("conv_kernel", 4);
  const auto limit = json.find("time_step_limit");
  if (limit != json.end() && limit->is_array() && limit->size() == 2 && (*limit)[0].is_number()) {
    sizes.spec.min_step = (*limit)[0].get<float>();
    // JSON has no infinity; what writers put in its place is no number.
    sizes.spec.max_step =
        (*limit)[1].is_number() ? (*limit)[1].get<float>() : std::numeric_limits<float>::infinity();
    if (!(sizes.spec.min_step >= 0.0F && sizes.spec.min_step <= sizes.spec.max_step)) {
      reader.Refuse(fmt::format(
          "`time_step_limit` in the configuration must be two ascending numbers from 0 on, got {}.",
          DumpJson(*limit)));
    }
  }
  return sizes;
}

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  Config config;
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim =
      reader.Size(reader.IsSet("attention_head_dim") ? "attention_head_dim" : "head_dim", 128);
  config.vocab_size = reader.Size("vocab_size", weights.Rows("backbone.embeddings"));
  config.norm_eps = static_cast<float>(
      reader.Positive(reader.IsSet("rms_norm_eps") ? "rms_norm_eps" : "layer_norm_epsilon", 1e-5));
  config.tied = reader.Flag("tie_word_embeddings", false);
  config.layers = ReadLayers(json, reader);
  config.mamba = ReadMamba2(json, reader, config.norm_eps);
  config.conv_bias = reader.Flag("use_conv_bias", true);
  CheckMamba2(reader, config.mamba);
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (const std::string act = reader.Text("mlp_hidden_act", "relu2"); act != "relu2") {
    reader.Refuse(fmt::format(
        "`mlp_hidden_act` in the configuration must be relu2 for a nemotron_h model, got {}.",
        act));
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  return config;
}

struct FeedForward {
  std::unique_ptr<ops::Linear> up;    // [intermediate, hidden]
  std::unique_ptr<ops::Linear> down;  // [hidden, intermediate]

  [[nodiscard]] mx::array Apply(const mx::array& x) const {
    return (*down)(mx::square(mx::maximum((*up)(x), mx::array(0.0F))));
  }
};

struct Layer {
  mx::array norm;  // [hidden]
  // One of them.
  std::optional<Mamba2Block> mamba;
  std::optional<AttentionBlock> attention;
  std::optional<FeedForward> mlp;
};

Result<FeedForward> LoadFeedForward(WeightLoader& weights, const Config& config,
                                    const std::string& prefix) {
  Result<std::unique_ptr<ops::Linear>> up = weights.Linear(
      {{.name = prefix + "up_proj", .n_out = config.intermediate_size}}, config.hidden_size);
  if (!up) {
    return Fail(up.error());
  }
  Result<std::unique_ptr<ops::Linear>> down = weights.Linear(
      {{.name = prefix + "down_proj", .n_out = config.hidden_size}}, config.intermediate_size);
  if (!down) {
    return Fail(down.error());
  }
  return FeedForward{.up = std::move(*up), .down = std::move(*down)};
}

Result<void> LoadMixer(WeightLoader& weights, const Config& config, const std::string& prefix,
                       int index, Layer& layer) {
  switch (config.layers[static_cast<std::size_t>(index)]) {
    case LayerKind::kMamba: {
      Result<Mamba2Block> mamba = LoadMamba2(weights, prefix,
                                             {.sizes = config.mamba,
                                              .layer = index,
                                              .hidden_size = config.hidden_size,
                                              .conv_bias = config.conv_bias});
      if (!mamba) {
        return Fail(mamba.error());
      }
      layer.mamba = std::move(*mamba);
      return {};
    }
    case LayerKind::kAttention: {
      Result<AttentionBlock> attention =
          LoadAttention(weights, prefix,
                        {.spec = {.layer = index,
                                  .n_heads = config.n_heads,
                                  .n_kv_heads = config.n_kv_heads,
                                  .head_dim = config.head_dim,
                                  .scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim)),
                                  .norm_eps = config.norm_eps},
                         .hidden_size = config.hidden_size});
      if (!attention) {
        return Fail(attention.error());
      }
      layer.attention = std::move(*attention);
      return {};
    }
    case LayerKind::kFeedForward: {
      Result<FeedForward> mlp = LoadFeedForward(weights, config, prefix);
      if (!mlp) {
        return Fail(mlp.error());
      }
      layer.mlp = std::move(*mlp);
      return {};
    }
  }
  return {};
}

class NemotronH final : public Model {
 public:
  NemotronH(const ops::Context& context, Config config, Embedding embedding,
            std::vector<Layer> layers, mx::array final_norm)
      : context_(context),
        config_(std::move(config)),
        embedding_(std::move(embedding)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    ops::LayerGroup full;
    ops::LayerGroup recurrent = config_.mamba.Group();
    for (std::size_t i = 0; i < config_.layers.size(); ++i) {
      if (config_.layers[i] != LayerKind::kFeedForward) {
        (config_.layers[i] == LayerKind::kMamba ? recurrent : full)
            .layers.push_back(static_cast<int>(i));
      }
    }
    std::vector<ops::LayerGroup> groups;
    for (ops::LayerGroup* group : {&full, &recurrent}) {
      if (!group->layers.empty()) {
        groups.push_back(std::move(*group));
      }
    }
    return {.groups = groups, .n_kv_heads = config_.n_kv_heads, .head_dim = config_.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const mx::array no_turn = ops::RopeAngles({.inv_freq = {0.0F}}, batch.positions);
    mx::array residual = embedding_.Embed(batch);  // [T, hidden]
    mx::array x =
        ops::RmsNorm(context_, residual, layers_[0].norm, config_.norm_eps);  // [T, hidden]
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const mx::array mixed = Mix(layers_[i], x, no_turn, batch, store);
      const mx::array& next_norm = i + 1 < layers_.size() ? layers_[i + 1].norm : final_norm_;
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, mixed, residual, next_norm, config_.norm_eps);
    }
    // Evaluated in any case: the layers' states hang on it.
    return batch.logit_rows.empty() ? x : embedding_.Logits(SelectLogitRows(x, batch));
  }

 private:
  [[nodiscard]] mx::array Mix(const Layer& layer, const mx::array& x, const mx::array& angles,
                              const ops::StepBatch& batch, ops::KvStore& store) const {
    if (layer.mamba) {
      return (*layer.mamba->output)(layer.mamba->Mix(context_, x, batch, store));
    }
    if (layer.attention) {
      return (*layer.attention->output)(layer.attention->Attend(context_, x, angles, batch, store));
    }
    return layer.mlp->Apply(x);
  }

  const ops::Context& context_;
  Config config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

Result<std::vector<Layer>> LoadLayers(WeightLoader& weights, const Config& config) {
  std::vector<Layer> layers;
  for (int i = 0; i < static_cast<int>(config.layers.size()); ++i) {
    const std::string prefix = "backbone.layers." + std::to_string(i) + ".";
    const Result<mx::array> norm = weights.Norm(prefix + "norm", config.hidden_size);
    if (!norm) {
      return Fail(norm.error());
    }
    Layer layer{.norm = *norm, .mamba = {}, .attention = {}, .mlp = {}};
    if (Result<void> mixer = LoadMixer(weights, config, prefix + "mixer.", i, layer); !mixer) {
      return Fail(mixer.error());
    }
    layers.push_back(std::move(layer));
  }
  return layers;
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Result<Config> config = ReadConfig(source.config, weights);
  if (!config) {
    return Fail(config.error());
  }
  Result<Embedding> embedding = LoadEmbedding(weights, "backbone.", "lm_head",
                                              {.vocab_size = config->vocab_size,
                                               .hidden_size = config->hidden_size,
                                               .tied = config->tied,
                                               .tokens_name = "embeddings"});
  if (!embedding) {
    return Fail(embedding.error());
  }
  Result<std::vector<Layer>> layers = LoadLayers(weights, *config);
  if (!layers) {
    return Fail(layers.error());
  }
  const Result<mx::array> final_norm = weights.Norm("backbone.norm_f", config->hidden_size);
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return name.starts_with("mtp.") || (config->tied && name.starts_with("lm_head."));
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  return std::make_unique<NemotronH>(context, *config, std::move(*embedding), std::move(*layers),
                                     *final_norm);
}

constexpr std::array<std::string_view, 1> kTypes = {"nemotron_h"};

// The family's turns; its own templates add reasoning and tools.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<SPECIAL_{{ 10 if message['role'] == 'system' else 11 }}>"
    "{{ message['role'] | capitalize }}\n{{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}<SPECIAL_11>Assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::nemotron_h
