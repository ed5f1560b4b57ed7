// Qwen3-Next (Qwen team 2025): three gated delta net layers to one with full attention, mixtures of
// many small experts with a shared one; some layers may be dense. The delta nets' projections are
// stored k head by k head. Definition: transformers, models/qwen3_next.

#include <array>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_moe.h"
#include "models/shared_qwen_hybrid.h"

namespace models::qwen3_next {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const Json& json = source.config;
  ConfigReader reader(json);
  QwenHybridConfig config = ReadQwenHybridConfig(json, reader, weights.Rows("model.embed_tokens"));
  config.layout = DeltaNetLayout::kInterleaved;
  config.intermediate_size = reader.Size("intermediate_size", 5632);
  config.moe = ReadQwenExperts(reader, config.hidden_size);
  config.is_sparse = ReadSparseLayers(json, reader, static_cast<int>(config.is_linear.size()));
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  return MakeQwenHybrid(context, source, weights, json, std::move(config));
}

constexpr std::array<std::string_view, 1> kTypes = {"qwen3_next"};

// ChatML, which the family's own templates extend.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::qwen3_next
