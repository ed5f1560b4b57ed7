// gpt-oss (OpenAI 2025): every other layer slides; each head has a sink, a score without a value
// that its softmax may fall to; experts with biases and a clamped SwiGLU, in MXFP4. Definition:
// transformers, models/gpt_oss (mlx-lm ignores the rope scaling's "truncate": false).

#include <fmt/format.h>

#include <array>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_layers.h"
#include "models/shared_moe.h"
#include "models/shared_moe_decoder.h"
#include "models/shared_rope.h"

namespace models::gpt_oss {
namespace {

Result<MoeDecoderConfig> ReadConfig(const Json& json, const WeightLoader& weights) {
  ConfigReader reader(json);
  MoeDecoderConfig config =
      ReadMoeDecoderConfig(reader, weights, {.head_dim = 64, .norm_eps = 1e-5});
  config.sinks = true;
  config.windows = LayerWindows(json, reader, config.n_layers, reader.Size("sliding_window", 128),
                                [](int layer) { return layer % 2 != 0; });
  config.moe.intermediate_size = config.intermediate_size;
  config.moe.activation = ops::Activation::kClampedSwiglu;
  config.moe.router_name = "router";
  config.moe.routing = {
      .n_experts = reader.Size("num_local_experts"),
      .n_chosen = reader.Size("num_experts_per_tok", reader.Size("experts_per_token", 4))};
  CheckRouting(reader, config.moe.routing);
  if (const double limit = reader.Positive("swiglu_limit", ops::kClampedSwigluLimit);
      limit != double{ops::kClampedSwigluLimit}) {
    reader.Refuse(fmt::format("`swiglu_limit` in the configuration must be {} for gpt_oss, got {}.",
                              ops::kClampedSwigluLimit, limit));
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope =
      ReadRope(json, {.head_dim = config.head_dim, .default_theta = 150000.0});
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

constexpr std::array<std::string_view, 1> kTypes = {"gpt_oss"};

// Messages of the harmony format; the published template adds a system message and tools.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|start|>{{ 'developer' if message['role'] == 'system' else "
    "message['role'] }}{{ '<|channel|>final' if message['role'] == 'assistant' }}<|message|>"
    "{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::gpt_oss
