#pragma once

#include <mlx/array.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "models/shared_config.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"
#include "ops/mamba2/mamba2.h"
#include "ops/short_conv/short_conv.h"
#include "ops/step_batch.h"

namespace models {

// What a config says of its Mamba-2 layers; `spec` is that of every layer but for its number.
struct Mamba2Sizes {
  ops::Mamba2Spec spec;
  int conv_kernel = 0;

  // What each of these layers keeps; without the layers.
  [[nodiscard]] ops::LayerGroup Group() const;
};

// Refuses through `reader` what no kernel computes.
void CheckMamba2(ConfigReader& reader, const Mamba2Sizes& sizes);

// A Mamba-2 layer up to and without its output projection: a short convolution over x, B and C, the
// state space, a gated norm.
struct Mamba2Block {
  ops::ShortConvSpec conv;
  ops::Mamba2Spec spec;
  std::unique_ptr<ops::Linear> input;  // [z | x | B | C | dt, hidden]
  mlx::core::array conv_weight;        // [kernel, channels]
  std::optional<mlx::core::array> conv_bias;
  ops::Mamba2Weights weights;
  std::unique_ptr<ops::Linear> output;  // [hidden, inner_size]

  // x: [T, hidden]. Returns [T, inner_size].
  [[nodiscard]] mlx::core::array Mix(const ops::Context& context, const mlx::core::array& x,
                                     const ops::StepBatch& batch, ops::KvStore& store) const;
};

struct Mamba2Options {
  Mamba2Sizes sizes;
  int layer = 0;
  int hidden_size = 0;
  bool conv_bias = true;
};

// Reads the tensors of <prefix> ("...mamba."): in_proj, conv1d, A_log, dt_bias, D, norm, out_proj.
[[nodiscard]] Result<Mamba2Block> LoadMamba2(WeightLoader& weights, const std::string& prefix,
                                             const Mamba2Options& options);

}  // namespace models
