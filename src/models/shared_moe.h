#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/glu/glu.h"
#include "ops/linear/linear.h"
#include "ops/moe/experts.h"
#include "ops/moe/routing.h"

namespace models {

// Mixture-of-experts feed-forward: the experts that the router chooses, and where there is one an
// expert that every token visits, times sigmoid(shared_gate(x)) where there is such a gate.
struct MoeBlock {
  ops::RoutingSpec routing;
  std::unique_ptr<ops::Linear> router;         // [n_experts, hidden]
  std::optional<mlx::core::array> correction;  // [n_experts]
  std::unique_ptr<ops::Experts> experts;
  std::optional<GatedMlp> shared;
  std::unique_ptr<ops::Linear> shared_gate;  // [1, hidden]

  // x: [T, hidden]. Returns [T, hidden].
  [[nodiscard]] mlx::core::array Apply(const ops::Context& context,
                                       const mlx::core::array& x) const;
};

struct MoeOptions {
  ops::RoutingSpec routing;
  int hidden_size = 0;
  int intermediate_size = 0;  // of one routed expert
  ops::Activation activation = ops::Activation::kSilu;
  std::string router_name = "gate";
  std::string correction_name = "";  // in full after the prefix; empty: none
  // Of an expert's matrices in "<prefix>experts.<number>."; mlx-lm and GGUF stack those of all
  // experts in "<prefix>switch_mlp.", where they are gate_proj, up_proj and down_proj.
  std::string gate_name = "gate_proj";
  std::string up_name = "up_proj";
  std::string down_name = "down_proj";
  std::string shared_name = "";       // empty: none
  int shared_intermediate_size = 0;   // with shared_name
  std::string shared_gate_name = "";  // empty: none
};

// Reads the tensors of <prefix> ("...mlp.").
[[nodiscard]] Result<MoeBlock> LoadMoe(WeightLoader& weights, const std::string& prefix,
                                       const MoeOptions& options);

// The feed-forward part of a layer in families that have both kinds.
struct FeedForward {
  // One of the two.
  std::optional<GatedMlp> dense;
  std::optional<MoeBlock> moe;

  [[nodiscard]] mlx::core::array Apply(const ops::Context& context,
                                       const mlx::core::array& x) const {
    return moe ? moe->Apply(context, x) : dense->Apply(context, x);
  }
};

// `moe`: what the layer's experts are, or null for a dense layer.
[[nodiscard]] Result<FeedForward> LoadFeedForward(WeightLoader& weights, const std::string& prefix,
                                                  const MoeOptions* moe,
                                                  const GatedMlpOptions& dense);

// By layer, whether it has experts, as the Qwen families' configs say: every
// `decoder_sparse_step`-th layer, but for those of `mlp_only_layers`.
[[nodiscard]] std::vector<bool> ReadSparseLayers(const Json& config, ConfigReader& reader,
                                                 int n_layers);

// Refuses through `reader` a choice of experts that cannot be made.
void CheckRouting(ConfigReader& reader, const ops::RoutingSpec& routing);

}  // namespace models
