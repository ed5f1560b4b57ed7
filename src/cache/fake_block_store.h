#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/token_constraint.h"
#include "ops/kv_store/block_store.h"

namespace cache {

// In place of a window: a recurrent group.
inline constexpr int kRecurrent = -1;

// For tests: a store that remembers which tokens a block was computed for, and fails the test on a
// double free, a free of what was never allocated and an overdrawn budget.
class FakeBlockStore final : public ops::BlockStore {
 public:
  // Block bytes differ between groups, so that a mix-up of groups shows in the sums.
  FakeBlockStore(const std::vector<int>& windows, std::uint64_t budget_bytes)
      : budget_bytes_(budget_bytes) {
    for (std::size_t g = 0; g < windows.size(); ++g) {
      const bool is_recurrent = windows[g] == kRecurrent;
      groups_.push_back({.layers = {static_cast<int>(g)},
                         .window = is_recurrent ? ops::kStateWindow : windows[g],
                         .state_floats = is_recurrent ? 1 : 0});
    }
  }
  ~FakeBlockStore() override { EXPECT_TRUE(blocks.empty()) << blocks.size() << " blocks leaked"; }

  const std::vector<ops::LayerGroup>& groups() const override { return groups_; }
  std::uint64_t BlockBytes(int group) const override {
    return 100 + 10 * static_cast<std::uint64_t>(group);
  }
  std::optional<ops::BlockId> Allocate(int group) override {
    if (used_bytes_ + BlockBytes(group) > budget_bytes_) {
      return std::nullopt;
    }
    used_bytes_ += BlockBytes(group);
    blocks[{group, next_}] = {};
    return next_++;
  }
  void Free(int group, ops::BlockId block) override {
    ASSERT_EQ(blocks.erase({group, block}), 1U)
        << "freed though not there: group " << group << ", block " << block;
    used_bytes_ -= BlockBytes(group);
    freed.emplace_back(group, block);
  }
  // The bytes begin with a number under which Contents keeps what the block holds; the rest tells
  // the groups apart.
  void CopyOut(int group, ops::BlockId block, std::span<std::byte> out) override {
    ASSERT_EQ(out.size(), BlockBytes(group));
    std::ranges::fill(out, static_cast<std::byte>(group));
    const std::uint64_t number = Contents().size();
    Contents().push_back(blocks.at({group, block}));
    std::memcpy(out.data(), &number, sizeof(number));
  }
  void CopyIn(int group, ops::BlockId block, std::span<const std::byte> bytes) override {
    ASSERT_EQ(bytes.size(), BlockBytes(group));
    ASSERT_EQ(bytes.back(), static_cast<std::byte>(group));
    std::uint64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof(number));
    blocks.at({group, block}) = Contents().at(number);
  }
  std::uint64_t used_bytes() const override { return used_bytes_; }
  std::uint64_t budget_bytes() const override { return budget_bytes_; }

  // Salt and all tokens up to the block's end; empty until computed.
  using Content = std::pair<std::string, std::vector<TokenId>>;
  std::map<std::pair<int, ops::BlockId>, Content> blocks;
  // All that was ever copied out, of all stores: files outlive them.
  static std::vector<Content>& Contents() {
    static std::vector<Content> contents;
    return contents;
  }
  std::vector<std::pair<int, ops::BlockId>> freed;

 private:
  std::vector<ops::LayerGroup> groups_;
  std::uint64_t budget_bytes_;
  std::uint64_t used_bytes_ = 0;
  ops::BlockId next_ = 0;
};

}  // namespace cache
