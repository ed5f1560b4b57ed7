#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "base/result.h"
#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_decoder.h"
#include "ops/context.h"

namespace models {

// What tells the families of pre-norm decoders apart, beside the sizes.
struct PreNormOptions {
  DecoderConfig config = {};
  // Of all layers; spec and sizes are filled in from `config`.
  AttentionOptions attention = {};
  GatedMlpOptions mlp = {};
  std::optional<float> attention_scale = {};         // nothing: 1 / sqrt(head_dim)
  std::function<bool(int layer)> rotates = nullptr;  // whether RoPE turns q and k; null: always
  // Multipliers (Granite).
  float embedding = 1.0F;
  float residual = 1.0F;  // of what a block adds
  float logits = 1.0F;
  // What the q of a position is multiplied with; null: nothing. (Ministral 3)
  std::function<float(std::int32_t position)> q_factor = nullptr;
};

// The decoder that most families share (Llama's): x += attention(norm(x)); x += mlp(norm(x)), with
// the tensors input_layernorm, self_attn., post_attention_layernorm and mlp. in each layer.
[[nodiscard]] Result<std::unique_ptr<Model>> MakePreNormDecoder(const ops::Context& context,
                                                                WeightLoader& weights,
                                                                PreNormOptions options);

}  // namespace models
