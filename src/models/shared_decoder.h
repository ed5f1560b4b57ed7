#pragma once

#include <mlx/array.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/weight_loader.h"
#include "ops/attention/attention.h"
#include "ops/rope/rope.h"

// What dense decoders have in common: sizes in the config, embedding, a list of layers, final norm.
namespace models {

struct DecoderConfig {
  int hidden_size = 0;
  int intermediate_size = 0;
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float norm_eps = 1e-6F;
  bool tied = false;
  std::vector<int> windows;  // by layer, 0 = full attention; all full unless the family reads them
  ops::RopeSpec rope;        // read by the family
  // Where the tensors are; the text parts of multi-modal checkpoints have longer prefixes.
  std::string prefix = "model.";
  std::string head_name = "lm_head";

  // Attention of one layer with the scale 1 / sqrt(head_dim).
  [[nodiscard]] ops::AttentionSpec Attention(int layer) const;
};

// What the family's configuration class in transformers assumes where a config is silent.
struct DecoderDefaults {
  std::optional<int> head_dim = {};  // nothing: hidden_size / n_heads
  double norm_eps = 1e-6;
  bool tied = false;
};

// The fields above but `windows` other than 0 and `rope`. Mistakes go to `reader`: a size that is
// missing or impossible, an activation ("hidden_act") other than silu.
// `weights` tells the vocabulary's size and where the tensors are.
[[nodiscard]] DecoderConfig ReadDecoderConfig(ConfigReader& reader, const WeightLoader& weights,
                                              const DecoderDefaults& defaults);

// `size` as a window, or 0 where no context of `config` is longer than it.
[[nodiscard]] int UsefulWindow(const Json& config, int size);

template <class Layer>
struct DecoderParts {
  Embedding embedding;
  std::vector<Layer> layers;
  mlx::core::array final_norm;  // [hidden]
};

// Whether a tensor is of the part of a multi-modal checkpoint that sees images.
[[nodiscard]] bool IsForImages(std::string_view name);

// The tensors embed_tokens, layers.N. (by `load_layer`, which gets that prefix and N), norm and
// lm_head. Nothing else may be there but a copy of a tied lm_head and what sees images.
template <class Layer>
[[nodiscard]] Result<DecoderParts<Layer>> LoadDecoderParts(
    WeightLoader& weights, const DecoderConfig& config,
    const std::function<Result<Layer>(const std::string& prefix, int index)>& load_layer) {
  Result<Embedding> embedding = LoadEmbedding(
      weights, config.prefix, config.head_name,
      {.vocab_size = config.vocab_size, .hidden_size = config.hidden_size, .tied = config.tied});
  if (!embedding) {
    return Fail(embedding.error());
  }
  std::vector<Layer> layers;
  for (int i = 0; i < config.n_layers; ++i) {
    Result<Layer> layer = load_layer(config.prefix + "layers." + std::to_string(i) + ".", i);
    if (!layer) {
      return Fail(layer.error());
    }
    layers.push_back(std::move(*layer));
  }
  const Result<mlx::core::array> final_norm =
      weights.Norm(config.prefix + "norm", config.hidden_size);
  if (!final_norm) {
    return Fail(final_norm.error());
  }
  const auto ignorable = [&](std::string_view name) {
    return (config.tied && name.starts_with(config.head_name + ".")) || IsForImages(name);
  };
  if (Result<void> all = weights.CheckAllTaken(ignorable); !all) {
    return Fail(all.error());
  }
  return DecoderParts<Layer>{
      .embedding = std::move(*embedding), .layers = std::move(layers), .final_norm = *final_norm};
}

// Norm weights [size] called <prefix><name>, in the order of `names`.
[[nodiscard]] Result<std::vector<mlx::core::array>> LoadNorms(WeightLoader& weights,
                                                              const std::string& prefix,
                                                              const std::vector<std::string>& names,
                                                              int size);

}  // namespace models
