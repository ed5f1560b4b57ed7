#include "models/shared_decoder.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "models/shared_layers.h"

namespace models {

namespace mx = mlx::core;

ops::AttentionSpec DecoderConfig::Attention(int layer) const {
  return {.layer = layer,
          .n_heads = n_heads,
          .n_kv_heads = n_kv_heads,
          .head_dim = head_dim,
          .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
          .window = windows[static_cast<std::size_t>(layer)],
          .norm_eps = norm_eps};
}

DecoderConfig ReadDecoderConfig(ConfigReader& reader, const WeightLoader& weights,
                                const DecoderDefaults& defaults) {
  DecoderConfig config;
  for (const char* prefix : {"language_model.model.", "model.language_model."}) {
    if (weights.Has(std::string(prefix) + "embed_tokens")) {
      config.prefix = prefix;
    }
  }
  if (config.prefix == "language_model.model.") {
    config.head_name = "language_model.lm_head";
  }
  config.hidden_size = reader.Size("hidden_size");
  config.intermediate_size = reader.Size("intermediate_size");
  config.n_layers = reader.Size("num_hidden_layers");
  config.n_heads = reader.Size("num_attention_heads");
  config.n_kv_heads = reader.Size("num_key_value_heads", config.n_heads);
  config.head_dim =
      reader.Size("head_dim", defaults.head_dim.value_or(config.hidden_size / config.n_heads));
  config.vocab_size = reader.Size("vocab_size", weights.Rows(config.prefix + "embed_tokens"));
  config.norm_eps = static_cast<float>(reader.Positive("rms_norm_eps", defaults.norm_eps));
  config.tied = reader.Flag("tie_word_embeddings", defaults.tied);
  if (const std::string activation = reader.Text("hidden_act", "silu"); activation != "silu") {
    reader.Refuse(fmt::format(
        "`hidden_act` in the configuration must be silu for this family, got {}.", activation));
  }
  CheckHeads(reader, config.n_heads, config.n_kv_heads, config.head_dim);
  if (CheckLayerCount(reader, config.n_layers)) {
    config.windows.assign(static_cast<std::size_t>(config.n_layers), 0);
  }
  return config;
}

bool IsForImages(std::string_view name) {
  return name.find("vision_tower.") != std::string_view::npos ||
         name.find("multi_modal_projector.") != std::string_view::npos;
}

int UsefulWindow(const Json& config, int size) {
  const auto context = config.find("max_position_embeddings");
  const bool never_passed = context != config.end() && context->is_number_integer() &&
                            context->get<std::int64_t>() <= size;
  return never_passed ? 0 : size;
}

Result<std::vector<mx::array>> LoadNorms(WeightLoader& weights, const std::string& prefix,
                                         const std::vector<std::string>& names, int size) {
  std::vector<mx::array> norms;
  for (const std::string& name : names) {
    const Result<mx::array> norm = weights.Norm(prefix + name, size);
    if (!norm) {
      return Fail(norm.error());
    }
    norms.push_back(*norm);
  }
  return norms;
}

}  // namespace models
