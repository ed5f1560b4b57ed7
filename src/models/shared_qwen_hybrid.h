#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model_files/model_source.h"
#include "models/model.h"
#include "models/shared_config.h"
#include "models/shared_delta_net.h"
#include "models/shared_moe.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/rope/rope.h"

namespace models {

// The Qwen families with gated delta nets (Qwen3-Next, Qwen3.5): some layers have full attention,
// whose output is gated and whose RoPE turns a part of each head; norms multiply by 1 + w; the
// feed-forward part of a layer is dense or a mixture of experts.
struct QwenHybridConfig {
  int hidden_size = 0;
  int intermediate_size = 0;  // of dense layers
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float norm_eps = 1e-6F;
  bool tied = false;
  std::vector<bool> is_linear;  // by layer
  std::vector<bool> is_sparse;  // by layer
  DeltaNetSizes delta_net;
  DeltaNetLayout layout = DeltaNetLayout::kSplit;
  MoeOptions moe;
  ops::RopeSpec rope;
  bool zero_centred = true;  // norms as stored
};

// Where the text model's tensors are: in multi-modal checkpoints as published, as mlx-lm writes
// them, or alone.
struct QwenNames {
  std::string model = "model.";
  std::string head = "lm_head";
};
[[nodiscard]] QwenNames FindQwenNames(const WeightLoader& weights);

// What all of these families' configs say but for the feed-forward part; no layer has experts.
// `rows`: of the embedding. Mistakes go to `reader`.
[[nodiscard]] QwenHybridConfig ReadQwenHybridConfig(const Json& json, ConfigReader& reader,
                                                    std::optional<int> rows);

// The experts of a config: num_experts, moe_intermediate_size, the shared expert.
[[nodiscard]] MoeOptions ReadQwenExperts(ConfigReader& reader, int hidden_size);

// Finishes `config` (RoPE out of `json`, whether the norms hold their 1) and loads. Tensors of
// images and of multi-token prediction may be there and are not used; the log says so.
[[nodiscard]] Result<std::unique_ptr<Model>> MakeQwenHybrid(const ops::Context& context,
                                                            const model_files::ModelSource& source,
                                                            WeightLoader& weights, const Json& json,
                                                            QwenHybridConfig config);

}  // namespace models
