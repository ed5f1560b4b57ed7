// Qwen2 and Qwen2.5, dense (Qwen team 2024): as Llama, with biases of q, k and v. Layers may slide.
// Source: transformers' models/qwen2.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"
#include "models/shared_templates.h"

namespace models::qwen2 {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  DecoderConfig config = ReadDecoderConfig(reader, weights, {});
  config.windows = QwenWindows(json, reader, config.n_layers);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return MakePreNormDecoder(context, weights,
                            {.config = std::move(config), .attention = {.qkv_biases = true}});
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen2"};

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kChatMlTemplate, .make = &Make};

}  // namespace models::qwen2
