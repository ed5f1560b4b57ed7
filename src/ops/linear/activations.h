#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/linear/kernels.h"
#include "ops/linear/packed_matrix.h"
#include "ops/thread_pool.h"

namespace ops::linear {

// How T rows are cut into blocks for a kernel: all of `rows`, the last one of what is left.
struct RowBlocks {
  int n_rows = 0;
  int rows = 1;
  int n_blocks = 0;

  // As even as possible: 13 rows for a kernel of 12 are 7 + 6. REQUIRES: n_rows >= 1.
  RowBlocks(int total_rows, int kernel_rows);

  [[nodiscard]] int first_row(int block) const { return block * rows; }
  [[nodiscard]] int rows_of(int block) const {
    return block + 1 < n_blocks ? rows : n_rows - first_row(block);
  }
};

// What the kernels add to a dot product for the zero point: factor * sum of 32 (or 16) activation
// codes.
struct OffsetKind {
  int factor = 0;
  bool sixteen = false;
  bool operator==(const OffsetKind&) const = default;
};

// The rows of a step rounded to int8, in row blocks.
class QuantizedRows {
 public:
  // x: [T, n_in] row-contiguous, not needed afterwards. `kinds`: the offsets that are wanted.
  QuantizedRows(const float* x, const RowBlocks& blocks, int n_in, const Kernels& kernels,
                std::span<const OffsetKind> kinds, ThreadPool& pool);

  [[nodiscard]] const RowBlocks& blocks() const { return blocks_; }

  // Fills the activation side of `product`: block `block`, inputs from first_input on. `kind`:
  // index into kinds.
  void Point(int block, int first_input, std::size_t kind, TileProduct& product) const;

  // scale * float(sum of 16 codes) of block `block`, n_groups from first_input on: [n_groups][R].
  void ScaledSums16(int block, int first_input, int n_groups, float* out) const;

 private:
  [[nodiscard]] QuantizedBlock Block(int block);
  [[nodiscard]] std::int32_t* Offsets(std::size_t kind);
  void FillOffsets(int block, const OffsetKind& kind, std::int32_t* offsets);

  RowBlocks blocks_;
  int n_groups_;
  AlignedBytes memory_;
  std::int8_t* codes_;
  float* scales_;
  float* scaled_sums_;
  std::int32_t* sums_;     // [2 n_groups] per row
  std::int32_t* offsets_;  // per kind: room for [2 n_groups] per row
};

// The rows of a step as float32, each row block transposed to [n_in][R].
class TransposedRows {
 public:
  TransposedRows(const float* x, const RowBlocks& blocks, int n_in, ThreadPool& pool);

  [[nodiscard]] const RowBlocks& blocks() const { return blocks_; }
  [[nodiscard]] const float* At(int block, int first_input) const;

 private:
  RowBlocks blocks_;
  int n_in_;
  AlignedBytes memory_;
};

}  // namespace ops::linear
