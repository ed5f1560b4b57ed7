#pragma once

#include <mlx/array.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ops/context.h"
#include "ops/kv_store/block_store.h"
#include "ops/kv_store/kv_dtype.h"

namespace ops {

struct KvStoreSpec {
  std::vector<LayerGroup> groups;  // each layer in exactly one
  int n_kv_heads = 0;
  int head_dim = 0;
  KvDtype dtype = KvDtype::kF16;
  std::uint64_t budget_bytes = 0;
};

// KV blocks with their content.
//
// Native layout of one block (group with L layers, element type of `dtype`), the kernels' order:
//   [L][n_kv_heads][ K: head_dim x kBlockTokens (token fastest) | V: kBlockTokens x head_dim (dim
//   fastest) | scales ]
// so that a score is a sum over head_dim with tokens in the vector lanes, and an output is a sum
// over tokens with dims in the lanes: no order of summation depends on how many rows are computed
// together. Memory is reserved for the whole budget and committed block by block on first use; Free
// gives the pages back.
//
// Scales: with kI8 float32 [ of K: kBlockTokens | of V: kBlockTokens ]. With kI4 a byte holds two
// dims of a token (of K 2i and 2i + 1, of V i and i + 16 of a group), and binary16 [ K scales | K
// minima: groups x kBlockTokens each | V scales | V minima: kBlockTokens x groups each ] follow.
//
// A recurrent group's layer holds [state_floats | conv_floats] float32 in place of K and V; what
// they mean is the operation's affair (ops/gated_delta, ops/short_conv).
//
// The reference store keeps, per block and layer, MLX arrays k and v [kBlockTokens, n_kv_heads,
// head_dim], or [state_floats] and [conv_floats] float32; with kI8 and kI4 they are uint8 and a row
// is a head's numbers and then its scales. Attention replaces them by arrays that its result is
// computed from, so that evaluating a step's result evaluates them too.
//
// Storing rounds to nearest even. A value beyond +-65504 becomes that limit, not infinity. With kI8
// a head's scale is its largest magnitude / 127, so a value is off by at most 1/254 of that; with
// kI4 a group's scale is (largest - least) / 15, so it is off by 1/30 of the range, and by what
// rounding scale and minimum to binary16 adds.
class KvStore : public BlockStore {
 public:
  [[nodiscard]] virtual const KvStoreSpec& spec() const = 0;

  // Group and index inside it of a model layer.
  struct LayerPlace {
    int group = 0;
    int index = 0;
  };
  [[nodiscard]] virtual LayerPlace PlaceOf(int layer) const = 0;

  // Native only: first byte of the part of `block` that belongs to the group's layer number
  // `index`.
  [[nodiscard]] virtual std::byte* LayerData(int group, BlockId block, int index) = 0;

  // Reference only: the arrays of a block's layer, replaced as a whole when tokens are added.
  struct BlockArrays {
    mlx::core::array k;  // [kBlockTokens, n_kv_heads, head_dim]; recurrent: [state_floats]
    mlx::core::array v;  // as k; recurrent: [conv_floats]
  };
  [[nodiscard]] virtual BlockArrays& Arrays(int group, BlockId block, int index) = 0;
};

// REQUIRES: spec.groups not empty, head_dim > 0.
[[nodiscard]] std::unique_ptr<KvStore> MakeKvStore(const Context& context, KvStoreSpec spec);

}  // namespace ops
