// Qwen3, dense (Qwen team 2025): as Llama, with RMS norms on each head of q and k. Layers may
// slide.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_layers.h"
#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"
#include "models/shared_templates.h"

namespace models::qwen3 {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  constexpr int kUsualHeadDim = 128;
  DecoderConfig config = ReadDecoderConfig(reader, weights, {.head_dim = kUsualHeadDim});
  const bool biased = reader.Flag("attention_bias", false);
  config.windows = QwenWindows(json, reader, config.n_layers);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim, .default_theta = 1e6});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return MakePreNormDecoder(context, weights,
                            {.config = std::move(config),
                             .attention = {.norms = QkNorms::kPerHead, .qkv_biases = biased}});
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3"};

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kChatMlTemplate, .make = &Make};

}  // namespace models::qwen3
