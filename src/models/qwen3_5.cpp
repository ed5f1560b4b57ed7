// Qwen3.5, dense, text (Qwen team 2026): three gated delta net layers to one with full attention.
// The checkpoints also see images; they are served as text models, for which the three sections of
// their RoPE have the same position. Definition: transformers, models/qwen3_5.

#include <array>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_moe.h"
#include "models/shared_qwen_hybrid.h"

namespace models::qwen3_5 {
namespace {

Result<std::unique_ptr<Model>> Make(const ops::Context& context,
                                    const model_files::ModelSource& source, WeightLoader& weights) {
  const auto text = source.config.find("text_config");
  const bool nested = text != source.config.end() && text->is_object();
  const Json& json = nested ? *text : source.config;
  ConfigReader reader(json);
  QwenHybridConfig config = ReadQwenHybridConfig(
      json, reader, weights.Rows(FindQwenNames(weights).model + "embed_tokens"));
  config.tied =
      reader.Flag("tie_word_embeddings",
                  nested && ConfigReader(source.config).Flag("tie_word_embeddings", false));
  config.intermediate_size = reader.Size("intermediate_size");
  if (reader.IsSet("num_experts")) {
    reader.Refuse(
        "`num_experts` in the configuration is set, which is for models of the type qwen3_5_moe.");
  }
  if (!reader.Flag("attn_output_gate", true)) {
    reader.Refuse("`attn_output_gate` in the configuration must be true for a qwen3_5 model.");
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  return MakeQwenHybrid(context, source, weights, json, std::move(config));
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_5", "qwen3_5_text"};

// ChatML, which the family's own templates extend.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::qwen3_5
