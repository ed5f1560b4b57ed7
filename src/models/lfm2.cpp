// LFM2 (Liquid AI 2025): most layers are gated short convolutions, the others full attention with
// norms on each head of q and k. Definition: transformers, models/lfm2.

#include <fmt/format.h>
#include <mlx/array.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_conv.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"
#include "ops/short_conv/short_conv.h"

namespace models::lfm2 {
namespace {

namespace mx = mlx::core;

struct Config {
  int hidden_size = 0;
  int intermediate_size = 0;  // adjusted
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  int conv_kernel = 0;
  float norm_eps = 1e-5F;
  bool tied = true;
  std::vector<bool> is_conv;  // by layer
  ops::RopeSpec rope;
};

// "layer_types", or in older configs the numbers of the attention layers.
std::vector<bool> ReadLayers(const Json& json, ConfigReader& reader, int n_layers) {
  constexpr int kMaxLayers = 10'000;  // far above every model
  std::vector<bool> is_conv(static_cast<std::size_t>(std::min(n_layers, kMaxLayers)), true);
  const auto types = json.find("layer_types");
  const auto full = json.find("full_attn_idxs");
  if (types != json.end() && types->is_array()) {
    if (types->size() != is_conv.size()) {
      reader.Refuse(fmt::format(
          "`layer_types` in the configuration has {} entries, but `num_hidden_layers` is {}.",
          types->size(), n_layers));
      return is_conv;
    }
    for (std::size_t i = 0; i < is_conv.size(); ++i) {
      const Json& type = (*types)[i];
      if (type != "conv" && type != "full_attention") {
        reader.Refuse(fmt::format(
            "`layer_types` in the configuration has a layer of type {}, but this family has only "
            "conv and full_attention.",
            DumpJson(type)));
      }
      is_conv[i] = type == "conv";
    }
    return is_conv;
  }
  if (full == json.end() || !full->is_array()) {
    reader.Refuse(
        "The configuration must say by `layer_types` or `full_attn_idxs` which layers are "
        "attention.");
    return is_conv;
  }
  for (const Json& index : *full) {
    if (!index.is_number_integer() || index.get<std::int64_t>() < 0 ||
        index.get<std::int64_t>() >= static_cast<std::int64_t>(is_conv.size())) {
      reader.Refuse(
          fmt::format("`full_attn_idxs` in the configuration names the layer {}, but there are {}.",
                      DumpJson(index), n_layers));
      return is_conv;
    }
    is_conv[index.get<std::size_t>()] = false;
  }
  return is_conv;
}

// The feed-forward size is two thirds of what the config says, rounded up, unless it says
// otherwise.
int ReadIntermediate(ConfigReader& reader) {
  const int stated =
      reader.IsSet("block_ff_dim") ? reader.Size("block_ff_dim") : reader.Size("intermediate_size");
  if (!reader.Flag("block_auto_adjust_ff_dim", true)) {
    return stated;
  }
  const double multiplier = reader.Positive("block_ffn_dim_multiplier", 1.0);
  const int multiple_of = reader.Size("block_multiple_of", 256);
  const auto two_thirds = static_cast<int>(2.0 * stated / 3.0);
  const int scaled = static_cast<int>(multiplier * two_thirds);
  return (scaled + multiple_of - 1) / multiple_of * multiple_of;
}

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  Config config;
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = ReadIntermediate(reader);
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.vocab_size = reader.Size("vocab_size", weights.Rows("model.embed_tokens"));
  config.conv_kernel = reader.Size("conv_L_cache", 3);
  config.norm_eps = static_cast<float>(reader.Positive("norm_eps", 1e-5));
  config.tied = reader.Flag("tie_word_embeddings", reader.Flag("tie_embedding", true));
  config.is_conv = ReadLayers(json, reader, config.n_layers);
  if (reader.Flag("conv_bias", false)) {
    reader.Refuse("`conv_bias` in the configuration must be false for an lfm2 model.");
  }
  if (config.conv_kernel < 2 || config.conv_kernel > ops::kMaxConvKernel) {
    reader.Refuse(fmt::format("`conv_L_cache` in the configuration must be 2 to {}, got {}.",
                              ops::kMaxConvKernel, config.conv_kernel));
  }
  if (config.n_heads > 0 && config.hidden_size % config.n_heads != 0) {
    reader.Refuse(fmt::format(
        "`hidden_size` in the configuration must be a multiple of `num_attention_heads`, got {} "
        "and {}.",
        config.hidden_size, config.n_heads));
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  config.head_dim = config.hidden_size / config.n_heads;
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e6});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return config;
}

// y = C (conv(B x)), with B, C and x from one matrix.
struct ConvBlock {
  ops::ShortConvSpec spec;
  std::unique_ptr<ops::Linear> input;   // [B | C | x, hidden]
  mx::array weight;                     // [kernel, hidden]
  std::unique_ptr<ops::Linear> output;  // [hidden, hidden]
};

Result<ConvBlock> LoadConv(WeightLoader& weights, const std::string& prefix, const Config& config,
                           int index) {
  const int hidden = config.hidden_size;
  Result<std::unique_ptr<ops::Linear>> input =
      weights.Linear({{.name = prefix + "in_proj", .n_out = 3 * hidden}}, hidden);
  if (!input) {
    return Fail(input.error());
  }
  const Result<mx::array> weight =
      LoadConvWeight(weights, prefix + "conv.weight", hidden, config.conv_kernel);
  if (!weight) {
    return Fail(weight.error());
  }
  Result<std::unique_ptr<ops::Linear>> output =
      weights.Linear({{.name = prefix + "out_proj", .n_out = hidden}}, hidden);
  if (!output) {
    return Fail(output.error());
  }
  return ConvBlock{.spec = {.layer = index,
                            .first_column = 2 * hidden,
                            .channels = hidden,
                            .kernel = config.conv_kernel,
                            .activation = ops::ConvActivation::kGates,
                            .in_gate_column = 0,
                            .out_gate_column = hidden},
                   .input = std::move(*input),
                   .weight = *weight,
                   .output = std::move(*output)};
}

struct Layer {
  mx::array operator_norm;  // [hidden]
  // One of the two.
  std::optional<AttentionBlock> attention;
  std::optional<ConvBlock> conv;
  mx::array ffn_norm;  // [hidden]
  GatedMlp mlp;
};

Result<void> LoadOperator(WeightLoader& weights, const Config& config, const std::string& prefix,
                          int index, Layer& layer) {
  if (config.is_conv[static_cast<std::size_t>(index)]) {
    Result<ConvBlock> conv = LoadConv(weights, prefix + "conv.", config, index);
    if (!conv) {
      return Fail(conv.error());
    }
    layer.conv = std::move(*conv);
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
                                                    .output_name = "out_proj",
                                                    .q_norm_name = "q_layernorm",
                                                    .k_norm_name = "k_layernorm"});
  if (!attention) {
    return Fail(attention.error());
  }
  layer.attention = std::move(*attention);
  return {};
}

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, int index) {
  const std::string prefix = "model.layers." + std::to_string(index) + ".";
  const Result<mx::array> operator_norm =
      weights.Norm(prefix + "operator_norm", config.hidden_size);
  if (!operator_norm) {
    return Fail(operator_norm.error());
  }
  const Result<mx::array> ffn_norm = weights.Norm(prefix + "ffn_norm", config.hidden_size);
  if (!ffn_norm) {
    return Fail(ffn_norm.error());
  }
  Result<GatedMlp> mlp = LoadGatedMlp(weights, prefix + "feed_forward.",
                                      {.hidden_size = config.hidden_size,
                                       .intermediate_size = config.intermediate_size,
                                       .gate_name = "w1",
                                       .up_name = "w3",
                                       .down_name = "w2"});
  if (!mlp) {
    return Fail(mlp.error());
  }
  Layer layer{.operator_norm = *operator_norm,
              .attention = {},
              .conv = {},
              .ffn_norm = *ffn_norm,
              .mlp = std::move(*mlp)};
  if (Result<void> loaded = LoadOperator(weights, config, prefix, index, layer); !loaded) {
    return Fail(loaded.error());
  }
  return layer;
}

std::vector<ops::LayerGroup> Groups(const Config& config) {
  ops::LayerGroup full;
  ops::LayerGroup conv{.layers = {},
                       .window = ops::kStateWindow,
                       .conv_floats = (config.conv_kernel - 1) * config.hidden_size};
  for (int i = 0; i < config.n_layers; ++i) {
    (config.is_conv[static_cast<std::size_t>(i)] ? conv : full).layers.push_back(i);
  }
  std::vector<ops::LayerGroup> groups;
  for (ops::LayerGroup& group : std::array{full, conv}) {
    if (!group.layers.empty()) {
      groups.push_back(std::move(group));
    }
  }
  return groups;
}

class Lfm2 final : public Model {
 public:
  Lfm2(const ops::Context& context, Config config, Embedding embedding, std::vector<Layer> layers,
       mx::array final_norm)
      : context_(context),
        config_(std::move(config)),
        embedding_(std::move(embedding)),
        layers_(std::move(layers)),
        final_norm_(std::move(final_norm)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {
        .groups = Groups(config_), .n_kv_heads = config_.n_kv_heads, .head_dim = config_.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const mx::array angles = ops::RopeAngles(config_.rope, batch.positions);
    mx::array residual = embedding_.Embed(batch);  // [T, hidden]
    mx::array x = ops::RmsNorm(context_, residual, layers_[0].operator_norm,
                               config_.norm_eps);  // [T, hidden]
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      mx::array mixed = layer.attention
                            ? layer.attention->Attend(context_, x, angles, batch, store)
                            : ops::ShortConv(context_, layer.conv->spec, (*layer.conv->input)(x),
                                             layer.conv->weight, std::nullopt, batch, store);
      if (i + 1 == layers_.size()) {
        // Nothing after the last state is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return mixed;
        }
        mixed = SelectLogitRows(mixed, batch);
        residual = SelectLogitRows(residual, batch);
      }
      const ops::Linear& output = layer.attention ? *layer.attention->output : *layer.conv->output;
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, output(mixed), residual, layer.ffn_norm, config_.norm_eps);
      const mx::array& next_norm =
          i + 1 < layers_.size() ? layers_[i + 1].operator_norm : final_norm_;
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
  const Result<mx::array> final_norm = weights.Norm("model.embedding_norm", config->hidden_size);
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return config->tied && name.starts_with("lm_head.");
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  return std::make_unique<Lfm2>(context, *config, std::move(*embedding), std::move(layers),
                                *final_norm);
}

constexpr std::array<std::string_view, 1> kTypes = {"lfm2"};

// ChatML after a begin token, as the family's own templates.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ "
    "message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::lfm2
