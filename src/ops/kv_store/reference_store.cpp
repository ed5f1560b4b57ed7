// The reference KvStore: MLX arrays, replaced as a whole when tokens are added.

#include <mlx/ops.h>

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/kv_store/shared_accounting.h"

namespace ops {
namespace {

namespace mx = mlx::core;

class ReferenceKvStore final : public AccountedKvStore {
 public:
  explicit ReferenceKvStore(const KvStoreSpec& spec)
      : AccountedKvStore(
            spec, std::vector<BlockId>(spec.groups.size(), std::numeric_limits<BlockId>::max())),
        blocks_(spec.groups.size()) {}

  [[nodiscard]] std::byte* LayerData(int /*group*/, BlockId /*block*/, int /*index*/) override {
    assert(false && "the reference store has arrays, not bytes");
    std::abort();
  }

  [[nodiscard]] BlockArrays& Arrays(int group, BlockId block, int index) override {
    assert(ids(group).IsTaken(block));
    return Layers(group, block)[static_cast<std::size_t>(index)];
  }

  // Layer by layer, K before V, each as the array has it.
  void CopyOut(int group, BlockId block, std::span<std::byte> out) override {
    for (const BlockArrays& layer : Layers(group, block)) {
      for (const mx::array* array : {&layer.k, &layer.v}) {
        mx::array values = mx::contiguous(*array);
        values.eval();
        std::memcpy(out.data(), values.data<std::byte>(), values.nbytes());
        out = out.subspan(values.nbytes());
      }
    }
  }
  void CopyIn(int group, BlockId block, std::span<const std::byte> bytes) override {
    for (BlockArrays& layer : Layers(group, block)) {
      for (mx::array* array : {&layer.k, &layer.v}) {
        const std::size_t size = array->nbytes();
        const mx::Shape raw{static_cast<int>(size)};
        const mx::array copied(reinterpret_cast<const std::uint8_t*>(bytes.data()), raw, mx::uint8);
        *array = mx::reshape(mx::view(copied, array->dtype()), array->shape());
        bytes = bytes.subspan(size);
      }
    }
  }

 protected:
  void OnAllocate(int group, BlockId block) override {
    auto& blocks = blocks_[static_cast<std::size_t>(group)];
    if (blocks.size() <= static_cast<std::size_t>(block)) {
      blocks.resize(static_cast<std::size_t>(block) + 1);
    }
    const LayerGroup& layers = groups()[static_cast<std::size_t>(group)];
    Layers(group, block).assign(layers.layers.size(), Empty(layers));
  }

  void OnFree(int group, BlockId block) override { Layers(group, block).clear(); }

 private:
  [[nodiscard]] BlockArrays Empty(const LayerGroup& group) const {
    if (group.is_recurrent()) {
      return {.k = mx::zeros({group.state_floats}, mx::float32),
              .v = mx::zeros({group.conv_floats}, mx::float32)};
    }
    // Finite everywhere, since masked positions are multiplied with a weight of 0.
    const bool is_float = spec().dtype == KvDtype::kF32 || spec().dtype == KvDtype::kF16;
    const int row_bytes =
        static_cast<int>(KvHeadBytes(spec().dtype, spec().head_dim)) / (2 * kBlockTokens);
    const mx::Shape shape{kBlockTokens, spec().n_kv_heads, is_float ? spec().head_dim : row_bytes};
    const mx::Dtype dtype = spec().dtype == KvDtype::kF32   ? mx::float32
                            : spec().dtype == KvDtype::kF16 ? mx::float16
                                                            : mx::uint8;
    const mx::array zeros = mx::zeros(shape, dtype);
    return {.k = zeros, .v = zeros};
  }
  [[nodiscard]] std::vector<BlockArrays>& Layers(int group, BlockId block) {
    return blocks_[static_cast<std::size_t>(group)][static_cast<std::size_t>(block)];
  }

  std::vector<std::vector<std::vector<BlockArrays>>> blocks_;  // [group][block][layer of the group]
};

}  // namespace

std::unique_ptr<KvStore> MakeReferenceKvStore(KvStoreSpec spec) {
  return std::make_unique<ReferenceKvStore>(spec);
}

}  // namespace ops
