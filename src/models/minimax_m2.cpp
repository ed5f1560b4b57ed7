// MiniMax-M2 and M2.5 (MiniMax 2025): RMS norms over the whole width of q and k, RoPE on a part of
// each head, sigmoid routing with a correction bias; published in FP8 with scales for blocks.
// Definition: transformers, models/minimax_m2.

#include <array>
#include <string>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_moe.h"
#include "models/shared_moe_decoder.h"
#include "models/shared_rope.h"

namespace models::minimax_m2 {
namespace {

Result<MoeDecoderConfig> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  MoeDecoderConfig config = ReadMoeDecoderConfig(reader, weights, {});
  config.attention.norms = reader.Flag("use_qk_norm", true) ? QkNorms::kAllHeads : QkNorms::kNone;
  config.mlp_name = "block_sparse_moe.";
  config.moe.intermediate_size = config.intermediate_size;
  config.moe.gate_name = "w1";
  config.moe.up_name = "w3";
  config.moe.down_name = "w2";
  config.moe.routing = {.n_experts = reader.Size("num_local_experts"),
                        .n_chosen = reader.Size("num_experts_per_tok"),
                        .score = ops::RouterScore::kSigmoid,
                        .sum_epsilon = 1e-20F};
  CheckRouting(reader, config.moe.routing);
  config.moe.correction_name = "e_score_correction_bias";
  if (reader.IsSet("shared_intermediate_size")) {
    reader.Refuse("`shared_intermediate_size` in the configuration must be 0 for minimax_m2.");
  }
  if (reader.Text("qk_norm_type", "per_layer") != "per_layer") {
    reader.Refuse("`qk_norm_type` in the configuration must be per_layer for minimax_m2.");
  }
  const int rotary_dim = reader.Size("rotary_dim", config.head_dim);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim,
                      .default_theta = 5e6,
                      .default_partial = static_cast<double>(rotary_dim) / config.head_dim});
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
  return MakeMoeDecoder(context, weights, std::move(*config));
}

constexpr std::array<std::string_view, 1> kTypes = {"minimax_m2"};

// The family's turns; its own templates add reasoning and tools.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}]~b]{{ 'ai' if message['role'] == 'assistant' else "
    "message['role'] }}\n{{ message['content'] }}[e~[\n{% endfor %}"
    "{% if add_generation_prompt %}]~b]ai\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::minimax_m2
