// Qwen3 with experts (Qwen team 2025): Qwen3 whose feed-forward layers are mixtures of experts,
// chosen by a softmax router; some layers may stay dense. Definition: transformers,
// models/qwen3_moe.

#include <array>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_layers.h"
#include "models/shared_moe.h"
#include "models/shared_moe_decoder.h"
#include "models/shared_rope.h"

namespace models::qwen3_moe {
namespace {

Result<MoeDecoderConfig> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  MoeDecoderConfig config = ReadMoeDecoderConfig(reader, weights, {.head_dim = 128});
  config.attention.norms = QkNorms::kPerHead;
  config.is_sparse = ReadSparseLayers(json, reader, config.n_layers);
  config.moe.intermediate_size = reader.Size("moe_intermediate_size");
  config.moe.routing = {.n_experts = reader.Size("num_experts"),
                        .n_chosen = reader.Size("num_experts_per_tok"),
                        .normalised = reader.Flag("norm_topk_prob", false)};
  CheckRouting(reader, config.moe.routing);
  if (reader.Flag("use_sliding_window", false) && reader.IsSet("sliding_window")) {
    config.windows = LayerWindows(json, reader, config.n_layers, reader.Size("sliding_window"),
                                  [](int /*layer*/) { return false; });
  }
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

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  Result<MoeDecoderConfig> config = ReadConfig(source.config, weights);
  if (!config) {
    return Fail(config.error());
  }
  return MakeMoeDecoder(context, weights, std::move(*config));
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3_moe"};

// ChatML, which the family's own templates extend.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::qwen3_moe
