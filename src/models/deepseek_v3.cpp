// DeepSeek-V3, R1, V3.1 (DeepSeek-AI 2024) and Kimi K2: multi-head latent attention, the first
// layers dense, the others with group-limited sigmoid routing, a correction bias and shared
// experts; YaRN. Published in FP8 with scales for blocks. Definition: transformers,
// models/deepseek_v3.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_mla.h"
#include "models/shared_moe.h"
#include "models/shared_moe_decoder.h"
#include "models/shared_rope.h"
#include "models/shared_unused.h"

namespace models::deepseek_v3 {
namespace {

// YaRN also sharpens the scores where the config has "mscale_all_dim".
double YarnScale(const Json& json, ConfigReader& reader) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = json.find(key);
    if (found == json.end() || !found->is_object()) {
      continue;
    }
    ConfigReader scaling(*found);
    if (!scaling.IsSet("mscale_all_dim")) {
      return 1.0;
    }
    const double all = scaling.Positive("mscale_all_dim");
    const double factor = scaling.Positive("factor", 1.0);
    if (const Result<void> read = scaling.Check(); !read) {
      reader.Refuse(read.error().message);
    }
    const double magnitude = factor <= 1.0 ? 1.0 : 0.1 * all * std::log(factor) + 1.0;
    return magnitude * magnitude;
  }
  return 1.0;
}

MlaSizes ReadMla(const Json& json, ConfigReader& reader, int n_heads) {
  constexpr int kGrain = 16;  // lanes of a kernel's vector
  MlaSizes sizes{.n_heads = n_heads,
                 .q_rank = reader.IsSet("q_lora_rank") ? reader.Size("q_lora_rank") : 0,
                 .kv_rank = reader.Size("kv_lora_rank"),
                 .nope_dim = reader.Size("qk_nope_head_dim"),
                 .rope_dim = reader.Size("qk_rope_head_dim"),
                 .v_dim = reader.Size("v_head_dim")};
  constexpr int kMost = 1 << 16;  // far above every model, as the product below
  constexpr std::int64_t kMostWidth = 1 << 24;
  const int widest = std::max({sizes.kv_rank, sizes.nope_dim, sizes.rope_dim, sizes.v_dim});
  if (widest > kMost || sizes.head_dim() % kGrain != 0 || sizes.rope_dim % 2 != 0 ||
      std::int64_t{n_heads} * (std::int64_t{widest} + sizes.rope_dim) > kMostWidth) {
    reader.Refuse(
        "`kv_lora_rank` and `qk_rope_head_dim` in the configuration must be even, their sum a "
        "multiple of 16, and heads of them no wider together than 2^24.");
  }
  if (!reader.Flag("rope_interleave", true)) {
    reader.Refuse("`rope_interleave` in the configuration must be true for deepseek_v3.");
  }
  sizes.scale = static_cast<float>(YarnScale(json, reader) /
                                   std::sqrt(static_cast<double>(sizes.nope_dim) + sizes.rope_dim));
  return sizes;
}

MoeOptions ReadExperts(ConfigReader& reader, int hidden_size) {
  MoeOptions moe;
  moe.hidden_size = hidden_size;
  moe.intermediate_size = reader.Size("moe_intermediate_size");
  moe.routing = {.n_experts = reader.Size("n_routed_experts"),
                 .n_chosen = reader.Size("num_experts_per_tok"),
                 .score = ops::RouterScore::kSigmoid,
                 .normalised = reader.Flag("norm_topk_prob", true),
                 .sum_epsilon = 1e-20F,
                 .scale = static_cast<float>(reader.Positive("routed_scaling_factor", 2.5)),
                 .n_groups = reader.Size("n_group", 8),
                 .n_chosen_groups = reader.Size("topk_group", 4)};
  CheckRouting(reader, moe.routing);
  moe.correction_name = "gate.e_score_correction_bias";
  if (reader.IsSet("n_shared_experts")) {
    moe.shared_name = "shared_experts";
    moe.shared_intermediate_size = moe.intermediate_size * reader.Size("n_shared_experts");
  }
  for (const auto& [key, value] :
       {std::pair("topk_method", "noaux_tc"), std::pair("scoring_func", "sigmoid")}) {
    if (reader.Text(key, value) != value) {
      reader.Refuse(
          fmt::format("`{}` in the configuration must be {} for deepseek_v3.", key, value));
    }
  }
  return moe;
}

Result<MoeDecoderConfig> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  MoeDecoderConfig config = ReadMoeDecoderConfig(reader, weights, {.head_dim = 64});
  config.mla = ReadMla(json, reader, config.n_heads);
  config.n_kv_heads = 1;
  config.head_dim = config.mla->head_dim();
  config.moe = ReadExperts(reader, config.hidden_size);
  const int n_dense =
      reader.IsSet("first_k_dense_replace") ? reader.Size("first_k_dense_replace") : 0;
  std::fill_n(config.is_sparse.begin(), std::min(n_dense, config.n_layers), false);
  if (reader.Size("moe_layer_freq", 1) != 1) {
    reader.Refuse("`moe_layer_freq` in the configuration must be 1 for deepseek_v3.");
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.mla->rope_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return config;
}

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  Result<MoeDecoderConfig> config = ReadConfig(source.config, weights);
  if (!config) {
    return Fail(config.error());
  }
  // The layer after the last predicts several tokens.
  const std::string predicting = "model.layers." + std::to_string(config->n_layers) + ".";
  LogUnusedTensors(source, predicting, "predicting several tokens at once");
  return MakeMoeDecoder(context, weights, std::move(*config),
                        [&](std::string_view name) { return name.starts_with(predicting); });
}

constexpr std::array<std::string_view, 2> kTypes = {"deepseek_v3", "kimi_k2"};

// The family's turns; its own templates add reasoning and tools.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "<\xEF\xBD\x9CUser\xEF\xBD\x9C>{{ message['content'] }}"
    "{% elif message['role'] == 'assistant' %}"
    "<\xEF\xBD\x9C"
    "Assistant\xEF\xBD\x9C>{{ message['content'] }}{{ eos_token }}"
    "{% else %}{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<\xEF\xBD\x9C"
    "Assistant\xEF\xBD\x9C>{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::deepseek_v3
