#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/model.h"
#include "models/shared_blocks.h"
#include "models/shared_config.h"
#include "models/shared_mla.h"
#include "models/shared_moe.h"
#include "models/weight_loader.h"
#include "ops/context.h"
#include "ops/rope/rope.h"

namespace models {

// What tells the families of pre-norm decoders with experts apart.
struct MoeDecoderConfig {
  int hidden_size = 0;
  int intermediate_size = 0;  // of dense layers
  int n_layers = 0;
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;
  int vocab_size = 0;
  float norm_eps = 1e-6F;
  bool tied = false;
  std::vector<int> windows;     // by layer, 0 = full attention
  std::vector<bool> is_sparse;  // by layer: has experts
  ops::RopeSpec rope;
  std::optional<MlaSizes> mla;    // in place of `attention`; n_kv_heads and head_dim of the store
  AttentionOptions attention;     // spec and hidden_size are filled in
  MoeOptions moe;                 // hidden_size is filled in
  bool sinks = false;             // of attention, self_attn.sinks
  std::string mlp_name = "mlp.";  // of the feed-forward part in a layer
};

// Where a config is silent.
struct MoeDecoderDefaults {
  std::optional<int> head_dim = {};  // nothing: hidden_size / n_heads
  double norm_eps = 1e-6;
  bool tied = false;
};

// The sizes above, all layers with experts and full attention; RoPE and what is special are left to
// the family. Mistakes go to `reader`: missing or impossible sizes, an activation other than silu.
[[nodiscard]] MoeDecoderConfig ReadMoeDecoderConfig(ConfigReader& reader,
                                                    const WeightLoader& weights,
                                                    const MoeDecoderDefaults& defaults);

// x += attention(norm(x)); x += mlp(norm(x)), with the tensors input_layernorm, self_attn.,
// post_attention_layernorm and mlp. in each layer. `ignorable`: names of tensors that may be there
// beside these.
[[nodiscard]] Result<std::unique_ptr<Model>> MakeMoeDecoder(
    const ops::Context& context, WeightLoader& weights, MoeDecoderConfig config,
    const std::function<bool(std::string_view)>& ignorable = {});

}  // namespace models
