// Gemma 3, text (Gemma team 2025): embeddings scaled by sqrt(hidden), norms before and after each
// block, norms on each head of q and k, five layers with a sliding window to one with full
// attention, GeGLU. The checkpoints that also see images ("gemma3") are served as text models;
// their vision tensors are left alone.

#include <fmt/format.h>
#include <mlx/array.h>
#include <mlx/ops.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_layers.h"
#include "models/shared_rope.h"
#include "ops/rms_norm/rms_norm.h"
#include "ops/rope/rope.h"

namespace models::gemma3_text {
namespace {

namespace mx = mlx::core;

// Sizes that a published config may leave out: the defaults of transformers' Gemma3TextConfig.
struct Config {
  int hidden_size = 2304;
  int intermediate_size = 9216;
  int n_layers = 26;
  int n_heads = 8;
  int n_kv_heads = 4;
  int head_dim = 256;
  int vocab_size = 262208;
  float norm_eps = 1e-6F;
  float attention_scale = 1.0F;
  std::vector<int> windows;  // by layer, 0 = full attention
  ops::RopeSpec global_rope;
  ops::RopeSpec local_rope;  // of sliding layers
};

void ReadSizes(ConfigReader& reader, const model_files::ModelSource& source, Config& config) {
  config.hidden_size = reader.Size("hidden_size", config.hidden_size);
  config.intermediate_size = reader.Size("intermediate_size", config.intermediate_size);
  config.n_layers = reader.Size("num_hidden_layers", config.n_layers);
  config.n_heads = reader.Size("num_attention_heads", config.n_heads);
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_kv_heads);
  config.head_dim = reader.Size("head_dim", config.head_dim);
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", 1e-6));
  // GGUF files do not carry query_pre_attn_scalar where it equals the head size.
  const bool gguf = source.format == model_files::ModelFormat::kGguf;
  const double scalar = reader.Positive("query_pre_attn_scalar", gguf ? config.head_dim : 256.0);
  config.attention_scale = static_cast<float>(1.0 / std::sqrt(scalar));
}

void RefuseWhatIsNotThere(ConfigReader& reader) {
  for (const char* key :
       {"final_logit_softcapping", "attn_logit_softcapping", "use_bidirectional_attention"}) {
    if (reader.IsSet(key)) {
      reader.Refuse(
          fmt::format("`{}` in the configuration is set, which is not supported for gemma3.", key));
    }
  }
  const std::string activation = reader.Text("hidden_activation", "gelu_pytorch_tanh");
  if (activation != "gelu_pytorch_tanh") {
    reader.Refuse(fmt::format(
        "`hidden_activation` in the configuration must be gelu_pytorch_tanh for gemma3, got {}.",
        activation));
  }
  if (!reader.Flag("tie_word_embeddings", true)) {
    reader.Refuse("`tie_word_embeddings` in the configuration must be true for gemma3.");
  }
}

// Every sixth layer is full unless the config says otherwise.
std::vector<int> ReadWindows(const Json& json, ConfigReader& reader, int n_layers) {
  const int window = reader.Size("sliding_window", 4096);
  const int pattern =
      reader.Size("sliding_window_pattern", reader.Size("_sliding_window_pattern", 6));
  return LayerWindows(json, reader, n_layers, window,
                      [pattern](int layer) { return (layer + 1) % pattern == 0; });
}

Result<Config> ReadConfig(const model_files::ModelSource& source, const Json& json,
                          std::optional<int> rows) {
  ConfigReader reader(json);
  Config config;
  ReadSizes(reader, source, config);
  config.vocab_size = reader.Size("vocab_size", rows ? *rows : config.vocab_size);
  RefuseWhatIsNotThere(reader);
  config.windows = ReadWindows(json, reader, config.n_layers);
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> global =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e6});
  if (!global) {
    return Fail(global.error());
  }
  Result<ops::RopeSpec> local = ReadRope(json, {.head_dim = config.head_dim,
                                                .default_theta = 1e4,
                                                .layer_type = "sliding_attention",
                                                .theta_key = "rope_local_base_freq",
                                                .scaled = false});
  if (!local) {
    return Fail(local.error());
  }
  config.global_rope = std::move(*global);
  config.local_rope = std::move(*local);
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

Result<std::vector<mx::array>> LoadNorms(WeightLoader& weights, const std::string& prefix,
                                         int size) {
  std::vector<mx::array> norms;
  for (const char* name : {"input_layernorm", "post_attention_layernorm",
                           "pre_feedforward_layernorm", "post_feedforward_layernorm"}) {
    const Result<mx::array> norm = weights.Norm(prefix + name, size, {.zero_centred = true});
    if (!norm) {
      return Fail(norm.error());
    }
    norms.push_back(*norm);
  }
  return norms;
}

Result<Layer> LoadLayer(WeightLoader& weights, const Config& config, const std::string& prefix,
                        int index) {
  const Result<std::vector<mx::array>> norms = LoadNorms(weights, prefix, config.hidden_size);
  if (!norms) {
    return Fail(norms.error());
  }
  const ops::AttentionSpec spec{.layer = index,
                                .n_heads = config.n_heads,
                                .n_kv_heads = config.n_kv_heads,
                                .head_dim = config.head_dim,
                                .scale = config.attention_scale,
                                .window = config.windows[static_cast<std::size_t>(index)],
                                .norm_eps = config.norm_eps};
  Result<AttentionBlock> attention = LoadAttention(weights, prefix + "self_attn.",
                                                   {.spec = spec,
                                                    .hidden_size = config.hidden_size,
                                                    .norms = QkNorms::kPerHead,
                                                    .zero_centred_norms = true});
  if (!attention) {
    return Fail(attention.error());
  }
  Result<GatedMlp> mlp = LoadGatedMlp(weights, prefix + "mlp.",
                                      {.hidden_size = config.hidden_size,
                                       .intermediate_size = config.intermediate_size,
                                       .activation = ops::Activation::kGeluTanh});
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

class Gemma3Text final : public Model {
 public:
  Gemma3Text(const ops::Context& context, Config config, Embedding embedding,
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
    const mx::array global_angles = ops::RopeAngles(config_.global_rope, batch.positions);
    const mx::array local_angles = ops::RopeAngles(config_.local_rope, batch.positions);
    // In float32, as transformers does for float32 weights; it rounds the factor to bfloat16 for
    // bfloat16 ones.
    const mx::array scale(std::sqrt(static_cast<float>(config_.hidden_size)));
    mx::array residual = mx::multiply(embedding_.Embed(batch), scale);  // [T, hidden]
    mx::array x = Norm(residual, layers_[0].input_norm);                // [T, hidden]
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Layer& layer = layers_[i];
      const mx::array& angles = layer.attention.spec.window == 0 ? global_angles : local_angles;
      mx::array attended = layer.attention.Attend(context_, x, angles, batch, store);
      if (i + 1 == layers_.size()) {
        // Nothing after the last K and V is needed of rows without logits.
        if (batch.logit_rows.empty()) {
          return attended;
        }
        attended = SelectLogitRows(attended, batch);
        residual = SelectLogitRows(residual, batch);
      }
      std::tie(x, residual) = ops::AddRmsNorm(
          context_, Norm((*layer.attention.output)(attended), layer.post_attention_norm), residual,
          layer.pre_mlp_norm, config_.norm_eps);
      const mx::array& next_norm = i + 1 < layers_.size() ? layers_[i + 1].input_norm : final_norm_;
      std::tie(x, residual) =
          ops::AddRmsNorm(context_, Norm(layer.mlp.Apply(context_, x), layer.post_mlp_norm),
                          residual, next_norm, config_.norm_eps);
    }
    return embedding_.Logits(x);
  }

 private:
  [[nodiscard]] mx::array Norm(const mx::array& x, const mx::array& weight) const {
    return ops::RmsNorm(context_, x, weight, config_.norm_eps);
  }

  const ops::Context& context_;
  Config config_;
  Embedding embedding_;
  std::vector<Layer> layers_;
  mx::array final_norm_;  // [hidden]
};

// Where the text model's tensors are: multi-modal checkpoints put a prefix before it, two spellings
// exist.
std::string FindPrefix(const WeightLoader& weights) {
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    if (weights.Has(std::string(prefix) + "embed_tokens")) {
      return prefix;
    }
  }
  return "model.";
}

// Parts of a checkpoint that a text model does without: what sees images, and copies of the tied
// output matrix.
bool IsIgnorable(std::string_view name) {
  for (const std::string_view part : {"vision_tower.", "multi_modal_projector.", "lm_head."}) {
    if (name.find(part) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const auto text = source.config.find("text_config");
  const Json& json = text != source.config.end() && text->is_object() ? *text : source.config;
  const std::string prefix = FindPrefix(weights);
  const Result<Config> config = ReadConfig(source, json, weights.Rows(prefix + "embed_tokens"));
  if (!config) {
    return Fail(config.error());
  }
  Result<Embedding> embedding = LoadEmbedding(
      weights, prefix, "",
      {.vocab_size = config->vocab_size, .hidden_size = config->hidden_size, .tied = true});
  if (!embedding) {
    return Fail(embedding.error());
  }
  std::vector<Layer> layers;
  for (int i = 0; i < config->n_layers; ++i) {
    Result<Layer> layer =
        LoadLayer(weights, *config, prefix + "layers." + std::to_string(i) + ".", i);
    if (!layer) {
      return Fail(layer.error());
    }
    layers.push_back(std::move(*layer));
  }
  const Result<mx::array> final_norm =
      weights.Norm(prefix + "norm", config->hidden_size, {.zero_centred = true});
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  if (Result<void> all = weights.CheckAllTaken(&IsIgnorable); !all) {
    return Fail(all.error());
  }
  return std::make_unique<Gemma3Text>(context, *config, std::move(*embedding), std::move(layers),
                                      *final_norm);
}

constexpr std::array<std::string_view, 2> kTypes = {"gemma3_text", "gemma3"};

// Gemma's turns; its format has no system role, so a system message opens the first user turn.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{% set opening = "
    "messages[0]['content'] ~ '\n\n' %}"
    "{% set turns = messages[1:] %}{% else %}{% set opening = '' %}{% set turns = messages %}{% "
    "endif %}"
    "{% for message in turns %}<start_of_turn>{{ 'model' if message['role'] == 'assistant' else "
    "message['role'] }}\n"
    "{{ opening if loop.first }}{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::gemma3_text
