// Granite 3 (IBM 2024): as Llama, with multipliers of embeddings, attention scores, block outputs
// and logits. Source: transformers' models/granite.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::granite {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  DecoderConfig config = ReadDecoderConfig(reader, weights, {});
  const auto multiplier = [&](std::string_view key) {
    return static_cast<float>(reader.Positive(key, 1.0));
  };
  const bool biased = reader.Flag("attention_bias", false);
  PreNormOptions options{.config = {},
                         .attention = {.qkv_biases = biased},
                         .attention_scale = multiplier("attention_multiplier"),
                         .embedding = multiplier("embedding_multiplier"),
                         .residual = multiplier("residual_multiplier"),
                         .logits = 1.0F / multiplier("logits_scaling")};
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  Result<ops::RopeSpec> rope = ReadRope(json, {.head_dim = config.head_dim});
  if (!rope) {
    return Fail(rope.error());
  }
  config.rope = std::move(*rope);
  options.config = std::move(config);
  return MakePreNormDecoder(context, weights, std::move(options));
}

constexpr std::array<std::string_view, 1> kTypes = {"granite"};

constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|start_of_role|>{{ message['role'] }}<|end_of_role|>{{ "
    "message['content'] }}<|end_of_text|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start_of_role|>assistant<|end_of_role|>{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::granite
