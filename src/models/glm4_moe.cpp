// GLM-4.5 to 4.7 (Zhipu AI 2025): RoPE turns a part of each head, the first layers are dense, the
// others have group-limited sigmoid routing with a correction bias and a shared expert. Definition:
// transformers, models/glm4_moe.

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_moe.h"
#include "models/shared_moe_decoder.h"
#include "models/shared_rope.h"
#include "models/shared_unused.h"

namespace models::glm4_moe {
namespace {

MoeOptions ReadExperts(ConfigReader& reader, int hidden_size) {
  MoeOptions moe;
  moe.hidden_size = hidden_size;
  moe.intermediate_size = reader.Size("moe_intermediate_size");
  moe.routing = {.n_experts = reader.Size("n_routed_experts"),
                 .n_chosen = reader.Size("num_experts_per_tok"),
                 .score = ops::RouterScore::kSigmoid,
                 .normalised = reader.Flag("norm_topk_prob", true),
                 .sum_epsilon = 1e-20F,
                 .scale = static_cast<float>(reader.Positive("routed_scaling_factor", 1.0)),
                 .n_groups = reader.Size("n_group", 1),
                 .n_chosen_groups = reader.Size("topk_group", 1)};
  CheckRouting(reader, moe.routing);
  moe.correction_name = "gate.e_score_correction_bias";
  if (reader.IsSet("n_shared_experts")) {
    moe.shared_name = "shared_experts";
    moe.shared_intermediate_size = moe.intermediate_size * reader.Size("n_shared_experts");
  }
  return moe;
}

Result<MoeDecoderConfig> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  MoeDecoderConfig config = ReadMoeDecoderConfig(reader, weights, {.norm_eps = 1e-5});
  config.attention.norms =
      reader.Flag("use_qk_norm", weights.Has("model.layers.0.self_attn.q_norm")) ? QkNorms::kPerHead
                                                                                 : QkNorms::kNone;
  config.moe = ReadExperts(reader, config.hidden_size);
  const int n_dense =
      reader.IsSet("first_k_dense_replace") ? reader.Size("first_k_dense_replace") : 0;
  std::fill_n(config.is_sparse.begin(), std::min(n_dense, config.n_layers), false);
  if (const std::string method = reader.Text("topk_method", "noaux_tc"); method != "noaux_tc") {
    reader.Refuse("`topk_method` in the configuration must be noaux_tc for glm4_moe.");
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e6, .default_partial = 0.5});
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

constexpr std::array<std::string_view, 1> kTypes = {"glm4_moe"};

// The family's turns; its own templates add reasoning and tools.
constexpr std::string_view kFallbackTemplate =
    "[gMASK]<sop>{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::glm4_moe
