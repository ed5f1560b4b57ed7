#include "ops/gated_delta/state_head.h"

#include <algorithm>

#include "ops/gated_delta/gated_delta.h"

namespace ops {
namespace {

// Columns of a state [k_dim][v_dim] and the tile that the kernels work on.
struct ColumnTile {
  float* tile = nullptr;  // [k_dim][kDeltaColumns]
  int n_columns = 0;
  int k_dim = 0;
  std::ptrdiff_t v_dim = 0;

  void Load(const float* from) const {
    for (int i = 0; i < k_dim; ++i) {
      if (from == nullptr) {
        std::fill_n(tile + i * kDeltaColumns, n_columns, 0.0F);
      } else {
        std::copy_n(from + i * v_dim, n_columns, tile + i * kDeltaColumns);
      }
    }
  }
  void Store(float* to) const {
    for (int i = 0; i < k_dim; ++i) {
      std::copy_n(tile + i * kDeltaColumns, n_columns, to + i * v_dim);
    }
  }
};

}  // namespace

void RunStateHead(const DeltaKernels& kernels, const NativeStateRuns& sequence,
                  std::ptrdiff_t at_head, const DeltaRun& head) {
  alignas(64) thread_local float state[kMaxKeyDim * kDeltaColumns];
  for (int column = 0; column < head.n_columns; column += kDeltaColumns) {
    const ColumnTile tile{.tile = state,
                          .n_columns = std::min(kDeltaColumns, head.n_columns - column),
                          .k_dim = head.k_dim,
                          .v_dim = head.n_columns};
    tile.Load(sequence.from == nullptr ? nullptr : sequence.from + at_head + column);
    for (std::size_t i = 0; i < sequence.runs.size(); ++i) {
      const std::ptrdiff_t row = sequence.runs[i].first_row;
      DeltaRun run = head;
      run.state = state;
      run.n_columns = tile.n_columns;
      run.q += row * run.qk_stride;
      run.k += row * run.qk_stride;
      run.v += row * run.v_stride + column;
      run.decay += row * run.gate_stride;
      run.beta += row * run.gate_stride;
      run.out += row * run.out_stride + column;
      run.n_rows = sequence.runs[i].n_rows;
      kernels.run(run);
      if (sequence.to[i] != nullptr) {
        tile.Store(sequence.to[i] + at_head + column);
      }
    }
  }
}

}  // namespace ops
