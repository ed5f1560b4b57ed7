#pragma once

#include <optional>
#include <vector>

#include "ops/kv_store/block_store.h"

namespace ops {

// The ids of one group's blocks: which are allocated, which to hand out next. Freed ids come back
// last in, first out, so that memory still in a CPU cache is used first.
class BlockIds {
 public:
  // Ids run from 0 to capacity - 1.
  explicit BlockIds(BlockId capacity) : capacity_(capacity) {}

  [[nodiscard]] std::optional<BlockId> Take() {
    if (!freed_.empty()) {
      const BlockId id = freed_.back();
      freed_.pop_back();
      taken_[static_cast<std::size_t>(id)] = true;
      return id;
    }
    if (next_ == capacity_) {
      return std::nullopt;
    }
    taken_.push_back(true);
    return next_++;
  }

  // REQUIRES: IsTaken(id).
  void Give(BlockId id) {
    taken_[static_cast<std::size_t>(id)] = false;
    freed_.push_back(id);
  }

  [[nodiscard]] bool IsTaken(BlockId id) const {
    return id >= 0 && id < next_ && taken_[static_cast<std::size_t>(id)];
  }

  [[nodiscard]] const std::vector<BlockId>& freed() const { return freed_; }  // oldest first

 private:
  BlockId capacity_;
  BlockId next_ = 0;
  std::vector<bool> taken_;
  std::vector<BlockId> freed_;
};

}  // namespace ops
