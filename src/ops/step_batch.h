#pragma once

#include <cstdint>
#include <vector>

#include "ops/kv_store/block_store.h"

namespace ops {

// One sequence's part of a step: rows [first_row, first_row + n_tokens) of the step's [T, ...]
// matrices.
struct SequenceRows {
  int first_row = 0;
  int n_tokens = 0;
  std::int64_t first_position = 0;  // position of the first row's token in its sequence
  // Per layer group: block of positions [64 i, 64 i + 64) at index i; kNoBlock where a window has
  // passed it. Long enough for first_position + n_tokens positions. In recurrent groups the step
  // reads the block of first_position - 1 and writes those of its own positions that are there, the
  // last of which must be (a sequence that goes through many blocks keeps the state of few).
  std::vector<std::vector<BlockId>> block_tables;
};

// The ragged batch of one step: all tokens of all sequences are rows of one matrix.
struct StepBatch {
  std::vector<std::int32_t> tokens;      // [T]
  std::vector<std::int32_t> positions;   // [T]
  std::vector<SequenceRows> sequences;   // cover the rows in order, without gaps
  std::vector<std::int32_t> logit_rows;  // rows whose logits are wanted, ascending
};

}  // namespace ops
