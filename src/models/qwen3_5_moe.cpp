// Qwen3.5 with experts, text (Qwen team 2026): Qwen3.5 whose feed-forward layers are all mixtures
// of experts with a shared one. The checkpoints also see images; see qwen3_5.cpp. Definition:
// transformers, models/qwen3_5_moe.

#include <array>
#include <utility>

#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_moe.h"
#include "models/shared_qwen_hybrid.h"

namespace models::qwen3_5_moe {
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
  config.moe = ReadQwenExperts(reader, config.hidden_size);
  config.moe.routing.normalised = true;
  config.is_sparse.assign(config.is_linear.size(), true);
  if (!reader.Flag("attn_output_gate", true)) {
    reader.Refuse("`attn_output_gate` in the configuration must be true for a qwen3_5_moe model.");
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  return MakeQwenHybrid(context, source, weights, json, std::move(config));
}

constexpr std::array<std::string_view, 2> kTypes = {"qwen3_5_moe", "qwen3_5_moe_text"};

// ChatML, which the family's own templates extend.
constexpr std::string_view kFallbackTemplate =
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] "
    "}}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

}  // namespace

extern constinit const ModelFamily kFamily{
    .model_types = kTypes, .fallback_chat_template = kFallbackTemplate, .make = &Make};

}  // namespace models::qwen3_5_moe
