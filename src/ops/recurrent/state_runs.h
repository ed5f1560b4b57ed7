#pragma once

#include <cstdint>
#include <vector>

#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace ops {

// Consecutive rows of one sequence inside one block of positions, and the block that takes the
// state after the last of them.
struct StateRun {
  int first_row = 0;
  int n_rows = 0;
  BlockId to = kNoBlock;  // kNoBlock: nobody wants it
};

// One sequence's way through a step in a recurrent layer. A layer takes the state before the first
// row, goes through the rows in order and writes the state down at the end of each run that has a
// block, so what is written is a function of the tokens alone, wherever a step begins or ends.
struct StateRuns {
  BlockId from = kNoBlock;  // state before the first row; kNoBlock: the sequence begins, all zero
  std::vector<StateRun> runs;
};

// The runs of every sequence of the step in layer group `group`.
[[nodiscard]] std::vector<StateRuns> RunsOf(const StepBatch& batch, int group);

// The same with addresses instead of ids, `offset` floats into the layer's part of each block. They
// stay the same as long as the blocks are allocated.
struct NativeStateRuns {
  const float* from = nullptr;  // null: all zero
  std::vector<StateRun> runs;
  std::vector<float*> to;  // of each run; null: nobody wants it
};
[[nodiscard]] std::vector<NativeStateRuns> NativeRunsOf(const StepBatch& batch, KvStore& store,
                                                        int layer, int offset);

}  // namespace ops
