#include "model_files/gguf_families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace model_files {
namespace {

// gguf-py's tensor_mapping.py holds both names of each.
constexpr auto kModelNames = std::to_array<NamePair>({
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
});

constexpr auto kLayerNames = std::to_array<NamePair>({
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
});

// Gemma normalises before and after both blocks.
constexpr auto kGemma3LayerNames = std::to_array<NamePair>({
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
});

// One of six layers sees everything, unless the file says otherwise: a period, or a flag a layer.
Json Gemma3LayerTypes(const GgufMetadata& metadata, std::int64_t layers, bool windowed) {
  constexpr std::string_view kPattern = "gemma3.attention.sliding_window_pattern";
  constexpr std::int64_t kUsualPeriod = 6;
  const std::vector<std::int64_t> flags = metadata.Integers(kPattern);
  const bool flagged = static_cast<std::int64_t>(flags.size()) == layers;
  const std::int64_t period =
      std::max<std::int64_t>(flagged ? 1 : metadata.Integer(kPattern).value_or(kUsualPeriod), 1);
  Json types = Json::array();
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool local = flagged ? flags[static_cast<std::size_t>(i)] != 0 : (i + 1) % period != 0;
    types.push_back(windowed && local ? "sliding_attention" : "full_attention");
  }
  return types;
}

void AddGemma3Config(const GgufMetadata& metadata, Json& config) {
  constexpr double kLocalTheta = 10000.0;
  constexpr std::int64_t kLayersOf27b = 62;
  const auto layers = config["num_hidden_layers"].get<std::int64_t>();
  const auto heads = config["num_attention_heads"].get<std::int64_t>();
  const std::optional<std::int64_t> window = metadata.Integer("gemma3.attention.sliding_window");
  const bool windowed = window && *window > 0;
  if (windowed) {
    config["sliding_window"] = *window;
  }
  config["layer_types"] = Gemma3LayerTypes(metadata, layers, windowed);
  config["rope_local_base_freq"] =
      metadata.Number("gemma3.rope.freq_base_swa").value_or(kLocalTheta);
  // The file does not say; only the 27B model scales by something other than head_dim.
  config["query_pre_attn_scalar"] = layers == kLayersOf27b
                                        ? config["hidden_size"].get<std::int64_t>() / heads
                                        : config["head_dim"].get<std::int64_t>();
  if (const auto cap = metadata.Number("gemma3.final_logit_softcapping")) {
    config["final_logit_softcapping"] = *cap;
  }
}

// Phi-3 and GLM-4 have gate and up, Phi-3 also q, k and v, in one tensor.
constexpr auto kPhi3LayerNames = std::to_array<NamePair>({
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_up", "mlp.gate_up_proj"},
});

constexpr auto kGlm4LayerNames = std::to_array<NamePair>({
    {"post_attention_norm", "post_self_attn_layernorm"},
    {"post_ffw_norm", "post_mlp_layernorm"},
    {"ffn_up", "mlp.gate_up_proj"},
});

constexpr auto kOlmo2LayerNames = std::to_array<NamePair>({
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
});

constexpr auto kSeedOssLayerNames = std::to_array<NamePair>({
    {"post_attention_norm", "post_attention_layernorm"},
});

// 0 in files of models without a window.
void AddPhi3Config(const GgufMetadata& metadata, Json& config) {
  if (const auto window = metadata.Integer("phi3.attention.sliding_window").value_or(0);
      window > 0) {
    config["sliding_window"] = window;
  }
}

// OLMo 3 is stored as an olmo2 with windows.
void AddOlmo2Config(const GgufMetadata& metadata, Json& config) {
  const auto window = metadata.Integer("olmo2.attention.sliding_window").value_or(0);
  if (window <= 0) {
    return;
  }
  config["model_type"] = "olmo3";
  config["sliding_window"] = window;
  constexpr std::string_view kPattern = "olmo2.attention.sliding_window_pattern";
  if (metadata.Count(kPattern) == 0) {
    return;
  }
  Json types = Json::array();
  for (const std::int64_t slides : metadata.Integers(kPattern)) {
    types.push_back(slides != 0 ? "sliding_attention" : "full_attention");
  }
  config["layer_types"] = std::move(types);
}

void AddGraniteConfig(const GgufMetadata& metadata, Json& config) {
  constexpr auto kScales = std::to_array<NamePair>({
      {"granite.attention.scale", "attention_multiplier"},
      {"granite.embedding_scale", "embedding_multiplier"},
      {"granite.residual_scale", "residual_multiplier"},
      {"granite.logit_scale", "logits_scaling"},
  });
  for (const NamePair& scale : kScales) {
    if (const auto value = metadata.Number(scale.gguf)) {
      config[std::string(scale.hugging_face)] = *value;
    }
  }
}

constexpr auto kFamilies = std::to_array<GgufFamily>({
    {.architecture = "llama",
     .model_type = "llama",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = {},
     .permuted_heads = true},
    {.architecture = "qwen3",
     .model_type = "qwen3",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = {}},
    {.architecture = "gemma3",
     .model_type = "gemma3_text",
     .activation_key = "hidden_activation",
     .activation = "gelu_pytorch_tanh",
     .layer_names = kGemma3LayerNames,
     .norm_weights_include_one = true,
     .add_config = &AddGemma3Config},
    {.architecture = "qwen2",
     .model_type = "qwen2",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = {}},
    {.architecture = "phi3",
     .model_type = "phi3",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kPhi3LayerNames,
     .add_config = &AddPhi3Config},
    {.architecture = "smollm3",
     .model_type = "smollm3",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = {},
     .permuted_heads = true},
    {.architecture = "olmo2",
     .model_type = "olmo2",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kOlmo2LayerNames,
     .add_config = &AddOlmo2Config},
    {.architecture = "granite",
     .model_type = "granite",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = {},
     .permuted_heads = true,
     .add_config = &AddGraniteConfig},
    {.architecture = "seed_oss",
     .model_type = "seed_oss",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kSeedOssLayerNames},
    {.architecture = "glm4",
     .model_type = "glm4",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kGlm4LayerNames},
});

std::optional<std::string_view> FindName(std::span<const NamePair> names, std::string_view gguf) {
  const auto found = std::ranges::find(names, gguf, &NamePair::gguf);
  return found == names.end() ? std::nullopt : std::optional(found->hugging_face);
}

// "3.attn_q" -> 3 and "attn_q". Nothing unless it begins with a plain number and a dot.
struct LayerName {
  int layer = 0;
  std::string_view rest;
};
std::optional<LayerName> SplitLayer(std::string_view text) {
  LayerName name;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), name.layer);
  const auto digits = static_cast<std::size_t>(end - text.data());
  const bool canonical = digits == 1 || (digits > 1 && text[0] != '0');
  if (error != std::errc() || !canonical || text[0] == '-' || digits >= text.size() ||
      text[digits] != '.') {
    return std::nullopt;
  }
  name.rest = text.substr(digits + 1);
  return name;
}

}  // namespace

const GgufFamily* FindGgufFamily(std::string_view architecture) {
  const auto found = std::ranges::find(kFamilies, architecture, &GgufFamily::architecture);
  return found == kFamilies.end() ? nullptr : &*found;
}

std::optional<std::string> TranslateTensorName(const GgufFamily& family,
                                               std::string_view stored_name) {
  constexpr std::string_view kLayerPrefix = "blk.";
  const std::size_t dot = stored_name.rfind('.');
  if (dot == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view suffix = stored_name.substr(dot);  // ".weight", ".bias"
  const std::string_view stem = stored_name.substr(0, dot);
  if (!stem.starts_with(kLayerPrefix)) {
    const std::optional<std::string_view> name = FindName(kModelNames, stem);
    return name ? std::optional(fmt::format("{}{}", *name, suffix)) : std::nullopt;
  }
  const std::optional<LayerName> in_layer = SplitLayer(stem.substr(kLayerPrefix.size()));
  if (!in_layer) {
    return std::nullopt;
  }
  std::optional<std::string_view> name = FindName(family.layer_names, in_layer->rest);
  if (!name) {
    name = FindName(kLayerNames, in_layer->rest);
  }
  return name ? std::optional(fmt::format("model.layers.{}.{}{}", in_layer->layer, *name, suffix))
              : std::nullopt;
}

}  // namespace model_files
