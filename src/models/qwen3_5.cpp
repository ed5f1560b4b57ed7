// Qwen3.5, dense, text (Qwen team 2026): three gated delta net layers to one with full attention,
// whose output is gated and whose RoPE turns a part of each head; norms that multiply by 1 + w. The
// checkpoints also see images; they are served as text models, for which the three sections of
// their RoPE have the same position. Definition: transformers, models/qwen3_5.

#include <fmt/format.h>
#include <mlx/array.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "base/log.h"
#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_delta_net.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::qwen3_5 {
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
  std::vector<bool> is_linear;  // by layer
  DeltaNetSizes delta_net;
  ops::RopeSpec rope;
  bool zero_centred = true;  // norms as stored
};

// Out of "layer_types", else every `full_attention_interval`-th layer is full.
std::vector<bool> ReadLayers(const Json& json, ConfigReader& reader, int n_layers) {
  const int interval = reader.Size("full_attention_interval", 4);
  constexpr int kMaxLayers = 10'000;  // far above every model
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

void RefuseWhatIsNotThere(ConfigReader& reader) {
  if (reader.Text("hidden_act", "silu") != "silu") {
    reader.Refuse("`hidden_act` in the configuration must be silu for a qwen3_5 model.");
  }
  if (!reader.Flag("attn_output_gate", true)) {
    reader.Refuse("`attn_output_gate` in the configuration must be true for a qwen3_5 model.");
  }
  if (reader.IsSet("num_experts")) {
    reader.Refuse(
        "`num_experts` in the configuration is set; a qwen3_5 model with experts is not supported "
        "yet.");
  }
}

Result<Config> ReadConfig(const Json& json, bool tied, std::optional<int> rows) {
  ConfigReader reader(json);
  Config config;
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim = reader.Size("head_dim", 256);
  config.vocab_size = reader.Size("vocab_size", rows);
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", 1e-6));
  config.tied = reader.Flag("tie_word_embeddings", tied);
  config.is_linear = ReadLayers(json, reader, config.n_layers);
  config.delta_net = ReadDeltaNetSizes(reader);
  RefuseWhatIsNotThere(reader);
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e7, .default_partial = 0.25});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return config;
}

struct Layer {
  mx::array input_norm;  // [hidden]
  // One of the two.
  std::optional<AttentionBlock> attention;
  std::optional<DeltaNet> delta_net;
  mx::array post_attention_norm;  // [hidden]
  GatedMlp mlp;
};

Result<void> LoadMixer(WeightLoader& weights, const Config& config, const std::string& prefix,
                       int index, Layer& layer) {
  if (config.is_linear[static_cast<std::size_t>(index)]) {
    Result<DeltaNet> net = LoadDeltaNet(weights, prefix + "linear_attn.",
                                        {.sizes = config.delta_net,
                                         .layout = DeltaNetLayout::kSplit,
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

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, const std::string& prefix,
                        int index) {
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
  Result<GatedMlp> mlp = LoadGatedMlp(
      weights, prefix + "mlp.",
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

class Qwen3_5 final : public Model {
 public:
  Qwen3_5(const ops::Context& context, Config config, Embedding embedding,
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
  Config config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

// Where the text model's tensors are: in multi-modal checkpoints as published, as mlx-lm writes
// them, or alone.
struct Names {
  std::string model = "model.";
  std::string head = "lm_head";
};

Names FindNames(const WeightLoader& weights) {
  if (weights.Has("language_model.model.embed_tokens")) {
    return {.model = "language_model.model.", .head = "language_model.lm_head"};
  }
  if (weights.Has("model.language_model.embed_tokens")) {
    return {.model = "model.language_model.", .head = "lm_head"};
  }
  return {};
}

Result<std::vector<Layer>> LoadLayers(WeightLoader& weights, const Config& config,
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

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const auto text = source.config.find("text_config");
  const bool nested = text != source.config.end() && text->is_object();
  const Names names = FindNames(weights);
  const bool tied = nested && ConfigReader(source.config).Flag("tie_word_embeddings", false);
  Result<Config> config =
      ReadConfig(nested ? *text : source.config, tied, weights.Rows(names.model + "embed_tokens"));
  if (!config) {
    return Fail(config.error());
  }
  config->zero_centred =
      !AnyMlxDeltaNet(weights, names.model + "layers.", config->is_linear, config->delta_net);
  Result<Embedding> embedding = LoadEmbedding(
      weights, names.model, names.head,
      {.vocab_size = config->vocab_size, .hidden_size = config->hidden_size, .tied = config->tied});
  if (!embedding) {
    return Fail(embedding.error());
  }
  Result<std::vector<Layer>> layers = LoadLayers(weights, *config, names.model + "layers.");
  if (!layers) {
    return Fail(layers.error());
  }
  const Result<mx::array> final_norm = weights.Norm(names.model + "norm", config->hidden_size,
                                                    {.zero_centred = config->zero_centred});
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return IsBesideTheTextModel(name) || (config->tied && name.starts_with(names.head + "."));
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  LogUnusedMtp(source);
  return std::make_unique<Qwen3_5>(context, *config, std::move(*embedding), std::move(*layers),
                                   *final_norm);
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_5", "qwen3_5_text"};

// ChatML, which the family's own templates extend.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::qwen3_5
