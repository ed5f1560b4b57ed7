// Granite 4 (IBM 2025): Mamba-2 layers and a few with full attention, mostly without rotary
// positions; a feed-forward part that every token visits, in the larger models beside routed
// experts; Granite's multipliers. Definition: transformers, models/granitemoehybrid.

#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/ops.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_decoder.h"
#include "models/shared_layers.h"
#include "models/shared_mamba2.h"
#include "models/shared_moe.h"
#include "models/shared_rope.h"
#include "ops/glu/glu.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::granitemoehybrid {
namespace {

namespace mx = mlx::core;

struct Config {
  DecoderConfig decoder;
  std::vector<bool> is_mamba;  // by layer
  Mamba2Sizes mamba;
  bool mamba_conv_bias = true;
  bool rotates = false;
  std::optional<MoeOptions> moe;  // nothing: no experts
  // Of the part that every token visits, and whether its matrices have mlx-lm's names.
  int shared_size = 0;
  bool mlx_names = false;
  float attention_scale = 1.0F;
  float embedding = 1.0F;
  float residual = 1.0F;
  float logits = 1.0F;
};

Mamba2Sizes ReadMamba2(const Json& json, ConfigReader& reader, int hidden_size, float norm_eps) {
  Mamba2Sizes sizes;
  sizes.spec = {.n_heads = reader.Size("mamba_n_heads", 128),
                .n_groups = reader.Size("mamba_n_groups", 1),
                .d_state = reader.Size("mamba_d_state", 256),
                .norm_eps = norm_eps};
  const auto head_dim = json.find("mamba_d_head");
  const bool is_given = head_dim != json.end() && !head_dim->is_null() && *head_dim != "auto";
  sizes.spec.head_dim =
      is_given ? reader.Size("mamba_d_head")
               : reader.Size("mamba_expand", 2) * hidden_size / std::max(1, sizes.spec.n_heads);
  sizes.conv_kernel = reader.Size("mamba_d_conv", 4);
  return sizes;
}

std::vector<bool> ReadLayers(const Json& json, ConfigReader& reader, int n_layers) {
  std::vector<bool> is_mamba;
  const auto types = json.find("layer_types");
  if (types == json.end() || !types->is_array() ||
      types->size() != static_cast<std::size_t>(n_layers)) {
    reader.Refuse(fmt::format(
        "`layer_types` in the configuration must say of each of the {} layers what it is.",
        n_layers));
    return is_mamba;
  }
  for (const Json& type : *types) {
    const bool attends = type == "attention" || type == "full_attention";
    if (!attends && type != "mamba" && type != "linear_attention") {
      reader.Refuse(fmt::format(
          "`layer_types` in the configuration has a layer of type {}, but this family has only "
          "mamba and attention.",
          DumpJson(type)));
    }
    is_mamba.push_back(!attends);
  }
  return is_mamba;
}

std::optional<MoeOptions> ReadExperts(const Json& json, ConfigReader& reader,
                                      const DecoderConfig& decoder) {
  if (const auto experts = json.find("num_local_experts"); experts != json.end() && *experts == 0) {
    return std::nullopt;
  }
  MoeOptions moe{.routing = {.n_experts = reader.Size("num_local_experts", 8),
                             .n_chosen = reader.Size("num_experts_per_tok", 2),
                             .normalised = true},
                 .hidden_size = decoder.hidden_size,
                 .intermediate_size = decoder.intermediate_size,
                 .router_name = "router.layer"};
  CheckRouting(reader, moe.routing);
  return moe;
}

Result<Config> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  Config config;
  config.decoder = ReadDecoderConfig(reader, weights, {});
  const DecoderConfig& decoder = config.decoder;
  if (!CheckLayerCount(reader, decoder.n_layers)) {
    return Fail(reader.Check().error());
  }
  config.is_mamba = ReadLayers(json, reader, decoder.n_layers);
  config.mamba = ReadMamba2(json, reader, decoder.hidden_size, decoder.norm_eps);
  CheckMamba2(reader, config.mamba);
  config.mamba_conv_bias = reader.Flag("mamba_conv_bias", true);
  config.rotates = reader.Text("position_embedding_type", "nope") == "rope";
  config.moe = ReadExperts(json, reader, decoder);
  config.mlx_names = !config.moe && weights.Has("model.layers.0.mlp.gate_proj");
  config.shared_size =
      config.mlx_names ? decoder.intermediate_size : reader.Size("shared_intermediate_size", 1024);
  const auto multiplier = [&](std::string_view key) {
    return static_cast<float>(reader.Positive(key, 1.0));
  };
  config.attention_scale = multiplier("attention_multiplier");
  config.embedding = multiplier("embedding_multiplier");
  config.residual = multiplier("residual_multiplier");
  config.logits = 1.0F / multiplier("logits_scaling");
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = decoder.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.decoder.rope = std::move(*rope);
  return config;
}

struct Layer {
  mx::array input_norm;  // [hidden]
  // One of the two.
  std::optional<AttentionBlock> attention;
  std::optional<Mamba2Block> mamba;
  mx::array post_attention_norm;  // [hidden]
  std::optional<MoeBlock> moe;
  GatedMlp shared;

  [[nodiscard]] mx::array FeedForward(const ops::Context& context, const mx::array& x) const {
    const mx::array own = shared.Apply(context, x);
    return moe ? ops::AddGated(context, moe->Apply(context, x), own, std::nullopt) : own;
  }
};

Result<void> LoadMixer(WeightLoader& weights, const Config& config, const std::string& prefix,
                       int index, Layer& layer) {
  if (config.is_mamba[static_cast<std::size_t>(index)]) {
    Result<Mamba2Block> mamba = LoadMamba2(weights, prefix + "mamba.",
                                           {.sizes = config.mamba,
                                            .layer = index,
                                            .hidden_size = config.decoder.hidden_size,
                                            .conv_bias = config.mamba_conv_bias});
    if (!mamba) {
      return Fail(mamba.error());
    }
    layer.mamba = std::move(*mamba);
    return {};
  }
  AttentionOptions options{.spec = config.decoder.Attention(index),
                           .hidden_size = config.decoder.hidden_size};
  options.spec.scale = config.attention_scale;
  Result<AttentionBlock> attention = LoadAttention(weights, prefix + "self_attn.", options);
  if (!attention) {
    return Fail(attention.error());
  }
  layer.attention = std::move(*attention);
  return {};
}

Result<GatedMlp> LoadShared(WeightLoader& weights, const Config& config,
                            const std::string& prefix) {
  GatedMlpOptions options{.hidden_size = config.decoder.hidden_size,
                          .intermediate_size = config.shared_size};
  if (config.mlx_names) {
    return LoadGatedMlp(weights, prefix + "mlp.", options);
  }
  options.fused_name = "input_linear";
  options.down_name = "output_linear";
  return LoadGatedMlp(weights, prefix + "shared_mlp.", options);
}

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, const std::string& prefix,
                        int index) {
  const Result<std::vector<mx::array>> norms = LoadNorms(
      weights, prefix, {"input_layernorm", "post_attention_layernorm"}, config.decoder.hidden_size);
  if (!norms) {
    return Fail(norms.error());
  }
  Result<GatedMlp> shared = LoadShared(weights, config, prefix);
  if (!shared) {
    return Fail(shared.error());
  }
  Layer layer{.input_norm = (*norms)[0],
              .attention = {},
              .mamba = {},
              .post_attention_norm = (*norms)[1],
              .moe = {},
              .shared = std::move(*shared)};
  if (config.moe) {
    Result<MoeBlock> moe = LoadMoe(weights, prefix + "block_sparse_moe.", *config.moe);
    if (!moe) {
      return Fail(moe.error());
    }
    layer.moe = std::move(*moe);
  }
  if (Result<void> mixer = LoadMixer(weights, config, prefix, index, layer); !mixer) {
    return Fail(mixer.error());
  }
  return layer;
}

mx::array Scaled(const mx::array& x, float factor) {
  return factor == 1.0F ? x : mx::multiply(x, mx::array(factor));
}

class GraniteMoeHybrid final : public Model {
 public:
  GraniteMoeHybrid(const ops::Context& context, Config config, DecoderParts<Layer> parts)
      : context_(context), config_(std::move(config)), parts_(std::move(parts)) {}

  [[nodiscard]] ops::KvStoreSpec kv_spec() const override {
    return {.groups = GroupHybridLayers(config_.is_mamba, config_.mamba.Group()),
            .n_kv_heads = config_.decoder.n_kv_heads,
            .head_dim = config_.decoder.head_dim};
  }
  [[nodiscard]] int vocab_size() const override { return config_.decoder.vocab_size; }

  [[nodiscard]] mx::array Forward(const ops::StepBatch& batch, ops::KvStore& store) override {
    const std::vector<Layer>& layers = parts_.layers;
    const float eps = config_.decoder.norm_eps;
    const mx::array angles =
        ops::RopeAngles(config_.rotates ? config_.decoder.rope : ops::RopeSpec{.inv_freq = {0.0F}},
                        batch.positions);
    mx::array residual = Scaled(parts_.embedding.Embed(batch), config_.embedding);  // [T, hidden]
    mx::array x = ops::RmsNorm(context_, residual, layers[0].input_norm, eps);      // [T, hidden]
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const Layer& layer = layers[i];
      mx::array mixed = layer.attention ? layer.attention->Attend(context_, x, angles, batch, store)
                                        : layer.mamba->Mix(context_, x, batch, store);
      if (i + 1 == layers.size()) {
        // Nothing after the last state is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return mixed;
        }
        mixed = SelectLogitRows(mixed, batch);
        residual = SelectLogitRows(residual, batch);
      }
      const ops::Linear& output = layer.attention ? *layer.attention->output : *layer.mamba->output;
      std::tie(x, residual) = ops::AddRmsNorm(context_, output(mixed), residual,
                                              layer.post_attention_norm, eps, config_.residual);
      const mx::array& next_norm =
          i + 1 < layers.size() ? layers[i + 1].input_norm : parts_.final_norm;
      std::tie(x, residual) = ops::AddRmsNorm(context_, layer.FeedForward(context_, x), residual,
                                              next_norm, eps, config_.residual);
    }
    return Scaled(parts_.embedding.Logits(x), config_.logits);
  }

 private:
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
      LoadDecoderParts<Layer>(weights, config->decoder, [&](const std::string& prefix, int index) {
        return LoadLayer(weights, *config, prefix, index);
      });
  if (!parts) {
    return Fail(parts.error());
  }
  return std::make_unique<GraniteMoeHybrid>(context, std::move(*config), std::move(*parts));
}

constexpr std::array<std::string_view, 1> kTypes = {"granitemoehybrid"};

constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|start_of_role|>{{ message['role'] }}<|end_of_role|>{{ "
    "message['content'] }}<|end_of_text|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::granitemoehybrid
