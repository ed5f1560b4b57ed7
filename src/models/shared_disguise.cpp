#include "models/shared_disguise.h"

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace models {
namespace {

using model_files::ModelSource;

constexpr const char* kQNorm = "self_attn.q_norm.weight";

std::set<std::string> With(std::set<std::string> parts, const std::vector<const char*>& more) {
  parts.insert(more.begin(), more.end());
  return parts;
}

// Names without "model.layers.N.", of quantised matrices those of the codes.
struct Known {
  std::string_view model_type;
  std::set<std::string> parts;
  bool whole_width_norms = false;
};

std::vector<Known> KnownLayers() {
  const std::set<std::string> attention = {"self_attn.q_proj.weight", "self_attn.k_proj.weight",
                                           "self_attn.v_proj.weight", "self_attn.o_proj.weight"};
  const std::vector<const char*> mlp = {"mlp.gate_proj.weight", "mlp.up_proj.weight",
                                        "mlp.down_proj.weight"};
  const std::vector<const char*> biases = {"self_attn.q_proj.bias", "self_attn.k_proj.bias",
                                           "self_attn.v_proj.bias"};
  const std::vector<const char*> head_norms = {kQNorm, "self_attn.k_norm.weight"};
  const std::vector<const char*> fused_mlp = {"mlp.gate_up_proj.weight", "mlp.down_proj.weight"};
  const std::vector<const char*> norms = {"input_layernorm.weight",
                                          "post_attention_layernorm.weight"};
  const std::set<std::string> llama = With(With(attention, mlp), norms);
  const std::set<std::string> glm = With(With(With(attention, fused_mlp), biases), norms);
  return {
      {.model_type = "llama", .parts = llama},
      {.model_type = "qwen2", .parts = With(llama, biases)},
      {.model_type = "qwen3", .parts = With(llama, head_norms)},
      {.model_type = "phi3",
       .parts =
           With(With({"self_attn.qkv_proj.weight", "self_attn.o_proj.weight"}, fused_mlp), norms)},
      {.model_type = "olmo2",
       .parts = With(With(With(attention, mlp), head_norms),
                     {"post_attention_layernorm.weight", "post_feedforward_layernorm.weight"}),
       .whole_width_norms = true},
      {.model_type = "gemma3_text",
       .parts = With(With(llama, head_norms),
                     {"pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"})},
      {.model_type = "glm", .parts = glm},
      {.model_type = "glm4",
       .parts = With(glm, {"post_self_attn_layernorm.weight", "post_mlp_layernorm.weight"})},
  };
}

// "model.layers.12.mlp.up_proj.weight" -> "mlp.up_proj.weight"; nothing for what is no layer's.
std::optional<std::string> PartOf(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  const std::size_t dot = name.find('.');
  return dot == std::string_view::npos ? std::nullopt
                                       : std::optional(std::string(name.substr(dot + 1)));
}

// Names that do not tell architectures apart: scales of quantised matrices, computed buffers.
bool TellsNothing(std::string_view part) {
  return part.ends_with(".scales") || part.ends_with(".biases") || part.ends_with("inv_freq");
}

bool HasWholeWidthNorms(const ModelSource& source) {
  const auto norm = source.tensors.find(std::string("model.layers.0.") + kQNorm);
  const auto q = source.tensors.find("model.layers.0.self_attn.q_proj.weight");
  return norm != source.tensors.end() && q != source.tensors.end() && !norm->second.shape.empty() &&
         !q->second.shape.empty() && norm->second.shape[0] == q->second.shape[0];
}

}  // namespace

std::optional<std::string_view> FindDisguised(const ModelSource& source) {
  std::set<std::string> parts;
  for (const auto& [name, tensor] : source.tensors) {
    if (std::optional<std::string> part = PartOf(name); part && !TellsNothing(*part)) {
      parts.insert(std::move(*part));
    }
  }
  const std::vector<Known> known = KnownLayers();
  const bool whole_width = HasWholeWidthNorms(source);
  const auto found = std::ranges::find_if(known, [&](const Known& each) {
    return each.parts == parts && each.whole_width_norms == whole_width;
  });
  return found == known.end() ? std::nullopt : std::optional(found->model_type);
}

}  // namespace models
