#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_constraint.h"
#include "ops/step_batch.h"

namespace engine {

// One sequence's tokens in a step, as the scheduler plans it.
struct StepSequence {
  std::uint64_t sequence_id = 0;  // unique in the process; names the sequence across steps
  std::vector<TokenId>
      tokens;  // to compute now, at positions first_position, first_position + 1, ...
  std::int64_t first_position = 0;
  std::vector<std::vector<ops::BlockId>> block_tables;  // per layer group, see ops::SequenceRows
  bool wants_logits = false;                            // of the last token
};

// Logits of one step. Rows follow the order of the sequences that wanted them.
class StepLogits {
 public:
  StepLogits(std::vector<float> values, int vocab_size)
      : values_(std::move(values)), vocab_size_(vocab_size) {}
  // [vocab_size], of the i-th sequence that wanted logits. Writable: the sampler works in place.
  [[nodiscard]] std::span<float> Row(int i) {
    return std::span<float>(values_).subspan(
        static_cast<std::size_t>(i) * static_cast<std::size_t>(vocab_size_),
        static_cast<std::size_t>(vocab_size_));
  }
  [[nodiscard]] int vocab_size() const { return vocab_size_; }

 private:
  std::vector<float> values_;
  int vocab_size_;
};

}  // namespace engine
