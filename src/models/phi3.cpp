// Phi-3, Phi-3.5, Phi-4 mini (Microsoft 2024): as Llama with q, k and v in one tensor and gate and
// up in another, RoPE on a part of each head, LongRoPE for long contexts (shared_rope.h), for some
// a sliding window. Source: transformers' models/phi3 (mlx-lm leaves the window out).

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::phi3 {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  DecoderConfig config = ReadDecoderConfig(reader, weights, {.norm_eps = 1e-5});
  if (reader.IsSet("sliding_window")) {
    const int window = UsefulWindow(json, reader.Size("sliding_window"));
    config.windows = LayerWindows(json, reader, config.n_layers, window, [](int) { return false; });
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return MakePreNormDecoder(context, weights,
                            {.config = std::move(config),
                             .attention = {.fused_qkv_name = "qkv_proj"},
                             .mlp = {.fused_name = "gate_up_proj"}});
}

constexpr std::array<std::string_view, 1> kTypes = {"phi3"};

constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n{% "
    "endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::phi3
