#pragma once

#include <mlx/array.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "models/shared_config.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/gated_delta/gated_delta.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"
#include "ops/short_conv/short_conv.h"
#include "ops/step_batch.h"

namespace models {

// What a config says of its gated delta net layers ("linear_*").
struct DeltaNetSizes {
  int n_k_heads = 0;
  int n_v_heads = 0;
  int k_dim = 0;
  int v_dim = 0;
  int conv_kernel = 0;

  [[nodiscard]] ops::GatedDeltaSpec Delta(int layer, float norm_eps) const;
  // What each of these layers keeps; without the layers.
  [[nodiscard]] ops::LayerGroup Group() const;
  [[nodiscard]] int conv_channels() const { return 2 * n_k_heads * k_dim + n_v_heads * v_dim; }
};

// Reads linear_num_key_heads and so on; what no kernel computes is refused through `reader`.
[[nodiscard]] DeltaNetSizes ReadDeltaNetSizes(ConfigReader& reader);

// Gated delta net up to and without its output projection (Yang et al. 2024; Qwen3-Next): a short
// convolution over q, k and v, the delta rule, a gated norm.
struct DeltaNet {
  ops::ShortConvSpec conv;
  ops::GatedDeltaSpec delta;
  std::unique_ptr<ops::Linear> projections;  // [q | k | v | z | b | a, hidden]
  mlx::core::array conv_weight;              // [kernel, channels]
  ops::GatedDeltaWeights weights;
  std::unique_ptr<ops::Linear> output;  // [hidden, value_size]

  // x: [T, hidden]. Returns [T, value_size].
  [[nodiscard]] mlx::core::array Mix(const ops::Context& context, const mlx::core::array& x,
                                     const ops::StepBatch& batch, ops::KvStore& store) const;
};

// How a checkpoint stores the projections.
enum class DeltaNetLayout {
  kSplit,        // in_proj_qkv, in_proj_z, in_proj_b, in_proj_a
  kInterleaved,  // in_proj_qkvz and in_proj_ba, k head by k head
};

struct DeltaNetOptions {
  DeltaNetSizes sizes;
  DeltaNetLayout layout = DeltaNetLayout::kSplit;
  int layer = 0;
  int hidden_size = 0;
  float norm_eps = 1e-6F;
};

// Reads the tensors of <prefix> ("...linear_attn.").
[[nodiscard]] Result<DeltaNet> LoadDeltaNet(WeightLoader& weights, const std::string& prefix,
                                            const DeltaNetOptions& options);

// Whether the checkpoint was written by mlx-lm, which turns the convolutions' weights round
// ([channels, kernel, 1] instead of [channels, 1, kernel]) and adds the 1 to zero-centred norms.
// `prefix`: of the layers, before their number.
[[nodiscard]] bool AnyMlxDeltaNet(const WeightLoader& weights, const std::string& prefix,
                                  const std::vector<bool>& is_linear, const DeltaNetSizes& sizes);

// Tensors that a text model without speculation does not need: of images, and the block that
// predicts several tokens ("mtp.").
[[nodiscard]] bool IsBesideTheTextModel(std::string_view name);

// Says once that a checkpoint's multi-token prediction is not used, where it has one.
void LogUnusedMtp(const model_files::ModelSource& source);

}  // namespace models
