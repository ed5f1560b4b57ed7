// Llama (Touvron et al. 2023; Grattafiori et al. 2024) and what shares its shape, SmolLM2 among
// them: pre-norm layers, grouped-query attention with RoPE, SwiGLU.

#include <array>
#include <string_view>
#include <utility>

#include "models/shared_pre_norm.h"
#include "models/shared_rope.h"

namespace models::llama {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  DecoderConfig config = ReadDecoderConfig(reader, weights, {});
  const bool biased = reader.Flag("attention_bias", false);
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

constexpr std::array<std::string_view, 1> kTypes = {"llama"};

// For base models, which know no special tokens of a chat: a plain transcript.
constexpr std::string_view kFallbackTemplate =
    "{{ bos_token }}{% for message in messages %}{{ message['role'] | capitalize }}: {{ "
    "message['content'] | trim }}\n\n"
    "{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::llama
