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

constexpr auto kMoeLayerNames = std::to_array<NamePair>({
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
});

void CopyInteger(const GgufMetadata& metadata, std::string_view from, const char* to,
                 Json& config) {
  if (const std::optional<std::int64_t> value = metadata.Integer(from)) {
    config[to] = *value;
  }
}

// As the families with a norm before each block, but that the second is called after attention.
constexpr auto kGptOssLayerNames = std::to_array<NamePair>({
    {"attn_sinks", "self_attn.sinks"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.router"},
    {"ffn_gate_exps", "mlp.experts.gate_proj"},
    {"ffn_up_exps", "mlp.experts.up_proj"},
    {"ffn_down_exps", "mlp.experts.down_proj"},
});

constexpr auto kGlm4MoeLayerNames = std::to_array<NamePair>({
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_gate_inp", "mlp.gate"},
    {"exp_probs_b", "mlp.gate.e_score_correction"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_experts.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_experts.up_proj"},
    {"ffn_down_shexp", "mlp.shared_experts.down_proj"},
    {"nextn.eh_proj", "eh_proj"},
    {"nextn.embed_tokens", "embed_tokens"},
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.shared_head_head", "shared_head.head"},
    {"nextn.shared_head_norm", "shared_head.norm"},
});

constexpr auto kMinimaxM2LayerNames = std::to_array<NamePair>({
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"exp_probs_b", "block_sparse_moe.e_score_correction"},
    {"ffn_gate_exps", "block_sparse_moe.switch_mlp.gate_proj"},
    {"ffn_up_exps", "block_sparse_moe.switch_mlp.up_proj"},
    {"ffn_down_exps", "block_sparse_moe.switch_mlp.down_proj"},
});

// llama.cpp always normalises this architecture's weights.
void AddQwen3MoeConfig(const GgufMetadata& metadata, Json& config) {
  CopyInteger(metadata, "qwen3moe.expert_count", "num_experts", config);
  CopyInteger(metadata, "qwen3moe.expert_used_count", "num_experts_per_tok", config);
  CopyInteger(metadata, "qwen3moe.expert_feed_forward_length", "moe_intermediate_size", config);
  config["norm_topk_prob"] = true;
}

// llama.cpp's YaRN has no "truncate"; the published configs have it false.
void AddGptOssConfig(const GgufMetadata& metadata, Json& config) {
  CopyInteger(metadata, "gpt-oss.expert_count", "num_local_experts", config);
  CopyInteger(metadata, "gpt-oss.expert_used_count", "num_experts_per_tok", config);
  CopyInteger(metadata, "gpt-oss.expert_feed_forward_length", "intermediate_size", config);
  CopyInteger(metadata, "gpt-oss.attention.sliding_window", "sliding_window", config);
  if (config.contains("rope_scaling")) {
    config["rope_scaling"]["truncate"] = false;
  }
}

// The layers that predict several tokens are counted among the others.
void AddGlm4MoeConfig(const GgufMetadata& metadata, Json& config) {
  CopyInteger(metadata, "glm4moe.expert_count", "n_routed_experts", config);
  CopyInteger(metadata, "glm4moe.expert_used_count", "num_experts_per_tok", config);
  CopyInteger(metadata, "glm4moe.expert_shared_count", "n_shared_experts", config);
  CopyInteger(metadata, "glm4moe.expert_feed_forward_length", "moe_intermediate_size", config);
  CopyInteger(metadata, "glm4moe.leading_dense_block_count", "first_k_dense_replace", config);
  CopyInteger(metadata, "glm4moe.expert_group_count", "n_group", config);
  CopyInteger(metadata, "glm4moe.expert_group_used_count", "topk_group", config);
  config["routed_scaling_factor"] = metadata.Number("glm4moe.expert_weights_scale").value_or(1.0);
  constexpr std::int64_t kSigmoid = 2;  // llama.h, enum llama_expert_gating_func_type
  if (metadata.Integer("glm4moe.expert_gating_func").value_or(kSigmoid) != kSigmoid) {
    config["topk_method"] = "softmax";
  }
  const auto layers = config["num_hidden_layers"].get<std::int64_t>();
  const auto predicting = metadata.Integer("glm4moe.nextn_predict_layers").value_or(0);
  if (predicting > 0 && predicting < layers) {
    config["num_hidden_layers"] = layers - predicting;
  }
}

void AddMinimaxM2Config(const GgufMetadata& metadata, Json& config) {
  CopyInteger(metadata, "minimax-m2.expert_count", "num_local_experts", config);
  CopyInteger(metadata, "minimax-m2.expert_used_count", "num_experts_per_tok", config);
  CopyInteger(metadata, "minimax-m2.expert_feed_forward_length", "intermediate_size", config);
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
    {.architecture = "qwen3moe",
     .model_type = "qwen3_moe",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kMoeLayerNames,
     .add_config = &AddQwen3MoeConfig},
    {.architecture = "gpt-oss",
     .model_type = "gpt_oss",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kGptOssLayerNames,
     .add_config = &AddGptOssConfig},
    {.architecture = "glm4moe",
     .model_type = "glm4_moe",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kGlm4MoeLayerNames,
     .add_config = &AddGlm4MoeConfig},
    {.architecture = "minimax-m2",
     .model_type = "minimax_m2",
     .activation_key = "hidden_act",
     .activation = "silu",
     .layer_names = kMinimaxM2LayerNames,
     .add_config = &AddMinimaxM2Config},
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
