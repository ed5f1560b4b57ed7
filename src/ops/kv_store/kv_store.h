#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/context.h"
#include "ops/kv_store/block_store.h"

namespace ops {

enum class KvDtype : std::uint8_t {
  kF32,  // exact; judge of the tests
  kF16,
};

[[nodiscard]] std::string_view Name(KvDtype dtype);

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
//   fastest) ]
// so that a score is a sum over head_dim with tokens in the vector lanes, and an output is a sum
// over tokens with dims in the lanes: no order of summation depends on how many rows are computed
// together. Memory is reserved for the whole budget and committed block by block on first use; Free
// gives the pages back.
//
// A recurrent group's layer holds [state_floats | conv_floats] float32 in place of K and V; what
// they mean is the operation's affair (ops/gated_delta, ops/short_conv).
//
// The reference store keeps, per block and layer, MLX arrays k and v [kBlockTokens, n_kv_heads,
// head_dim], or [state_floats] and [conv_floats] float32. Attention replaces them by arrays that
// its result is computed from, so that evaluating a step's result evaluates them too.
//
// Storing as kF16 rounds to nearest even; a value beyond +-65504 becomes that limit, not infinity.
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
