#pragma once

#include <optional>
#include <vector>

#include "ops/linear/activations.h"
#include "ops/linear/packed_matrix.h"
#include "ops/linear/tile_sums.h"

namespace ops::linear {

// Inputs that a tile's scratch covers: 16 KiB of codes and 4 KiB of scales stay in the L1 cache.
// Chunks begin at its multiples whatever the number of rows: with biases for every 16 inputs those
// of a chunk are added after its dot products.
inline constexpr int kChunk = 1024;

// Row blocks [first, end).
struct BlockRange {
  int first;
  int end;
};

// The packed parts of a Linear and how to multiply with them.
class NativeProduct {
 public:
  // `bias`: [sum of n_out] or empty. REQUIRES: at least one part; all with the same n_in.
  NativeProduct(std::vector<PackedMatrix> parts, std::vector<float> bias, const Kernels& kernels,
                ThreadPool& pool);

  [[nodiscard]] int n_in() const { return parts_.front().n_in(); }
  [[nodiscard]] int n_out() const { return n_out_; }
  [[nodiscard]] std::uint64_t bytes() const;

  // x: [n_rows, n_in], y: [n_rows, n_out], both row-contiguous.
  void Multiply(const float* x, int n_rows, float* y) const;

  // Multiply in two steps, for callers that share out the work of several products themselves: the
  // rows in the forms that the parts want, prepared on the threads of `pool`, ...
  struct Inputs {
    std::optional<QuantizedRows> coded;
    std::optional<TransposedRows> floats;
  };
  [[nodiscard]] Inputs Prepare(const float* x, int n_rows, ThreadPool& pool) const;
  // ... and the tiles [first, end) of all parts, counted one part after the other, on the calling
  // thread. REQUIRES: `inputs` has rows.
  [[nodiscard]] int n_tiles() const;
  void MultiplyTiles(const Inputs& inputs, int first, int end, float* y) const;

  // Row `row` as float32, n_in values; zeros where there is no such row (which is a mistake of
  // ours).
  void CopyRow(int row, float* out) const;

  [[nodiscard]] ThreadPool& pool() const { return pool_; }

 private:
  struct Unit;
  struct Chunk;
  [[nodiscard]] Unit FindUnit(int index, int tiles_per_unit) const;
  [[nodiscard]] OffsetKind KindOf(const PackedMatrix& part) const;
  void RunUnit(const Inputs& inputs, const Unit& unit, int super, float* y) const;
  void RunCoded(const QuantizedRows& x, const Unit& unit, int super, float* y) const;
  void RunCodedTile(const QuantizedRows& x, std::size_t part, int tile, int super, float* y) const;
  // Inputs of a chunk, multiples of 16.
  struct Inputs16 {
    int first_input = 0;
    int n_inputs = 0;
  };
  void AddBiases16(const QuantizedRows& x, int block, const Inputs16& inputs, const float* biases,
                   const TileProduct& product) const;
  void RunChunk(const QuantizedRows& x, const BlockRange& range, const Chunk& chunk,
                const TileSums& sums) const;
  void RunFloat(const TransposedRows& x, const Unit& unit, int super, float* y) const;
  // acc += sum of x * w * scales, over the inputs of one scale.
  void MultiplyScaled(int rows, const FloatProduct& product, const float* scales) const;
  [[nodiscard]] TileSums MakeSums(std::size_t part, int tile, const RowBlocks& blocks,
                                  const BlockRange& range, float* y,
                                  std::vector<float>& aside) const;
  [[nodiscard]] const float* Bias(std::size_t part, int tile) const;

  std::vector<PackedMatrix> parts_;
  std::vector<int> first_out_;          // of each part
  std::vector<OffsetKind> kinds_;       // different ones
  std::vector<std::size_t> part_kind_;  // of each part, index into kinds_
  std::vector<float> bias_;
  int n_out_ = 0;
  const Kernels& kernels_;
  ThreadPool& pool_;
};

}  // namespace ops::linear
