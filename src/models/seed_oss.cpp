// Seed-OSS (ByteDance 2025): as Llama, with biases of q, k and v and heads wider than hidden_size
// divided by their number. Source: transformers' models/seed_oss.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::seed_oss {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  constexpr int kUsualHeadDim = 128;
  DecoderConfig config = ReadDecoderConfig(reader, weights, {.head_dim = kUsualHeadDim});
  const bool biased = reader.Flag("attention_bias", true);
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  return MakePreNormDecoder(context, weights,
                            {.config = std::move(config), .attention = {.qkv_biases = biased}});
}

constexpr std::array<std::string_view, 1> kTypes = {"seed_oss"};

constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<seed:bos>{{ message['role'] }}\n{{ message['content'] "
    "}}<seed:eos>{% endfor %}"
    "{% if add_generation_prompt %}<seed:bos>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::seed_oss
