#include <spdlog/spdlog.h>

#include <cstdlib>
#include <utility>

#include "cache/prefix_cache.h"
#include "cache/window.h"

namespace cache {

// Each sequence computes everything itself and its blocks die with it.
class NaiveCache final : public PrefixCache {
 public:
  explicit NaiveCache(ops::BlockStore& blocks) : blocks_(blocks) {}

  using PrefixCache::Begin;
  Lease Begin(std::span<const TokenId> tokens, const std::string& /*salt*/,
              std::span<const std::int64_t> /*boundaries*/) override {
    Lease lease;
    lease.block_tables_.resize(blocks_.groups().size());
    lease.first_kept_.resize(blocks_.groups().size(), 0);
    lease.prompt_len_ = static_cast<std::int64_t>(tokens.size());
    lease.live_ = true;
    return lease;
  }

  std::int64_t MatchLength(std::span<const TokenId> /*tokens*/, const std::string& /*salt*/,
                           PrefixKeys& /*keys*/) const override {
    return 0;
  }

  bool Reserve(Lease& lease, std::int64_t len) override {
    if (!std::exchange(lease.counted_, true)) {
      ++misses_;
      lookup_tokens_ += static_cast<std::uint64_t>(lease.prompt_len_);
    }
    const auto wanted = static_cast<std::size_t>(BlocksFor(len));
    std::vector<std::size_t> old_sizes;
    for (const auto& table : lease.block_tables_) {
      old_sizes.push_back(table.size());
    }
    for (std::size_t g = 0; g < lease.block_tables_.size(); ++g) {
      auto& table = lease.block_tables_[g];
      while (table.size() < wanted) {
        // A state is needed only where the step ends.
        if (blocks_.groups()[g].is_recurrent() && table.size() + 1 < wanted) {
          table.push_back(ops::kNoBlock);
          continue;
        }
        const std::optional<ops::BlockId> block = blocks_.Allocate(static_cast<int>(g));
        if (!block) {
          Shrink(lease, old_sizes);
          return false;
        }
        table.push_back(*block);
      }
    }
    return true;
  }

  void Commit(Lease& lease, std::span<const TokenId> tokens) override {
    for (std::size_t g = 0; g < lease.block_tables_.size(); ++g) {
      const std::int64_t first =
          FirstBlockSeen(static_cast<std::int64_t>(tokens.size()), blocks_.groups()[g].window);
      for (std::int64_t& kept = lease.first_kept_[g]; kept < first; ++kept) {
        ops::BlockId& block = lease.block_tables_[g][static_cast<std::size_t>(kept)];
        if (block != ops::kNoBlock) {
          blocks_.Free(static_cast<int>(g), block);
          block = ops::kNoBlock;
        }
      }
    }
  }

  void Release(Lease lease) override {
    Shrink(lease, std::vector<std::size_t>(lease.block_tables_.size(), 0));
    lease.live_ = false;
  }

  std::uint64_t AvailableBytes() const override {
    return blocks_.budget_bytes() - blocks_.used_bytes();
  }

  bool SharesPrefixes() const override { return false; }

  void Clear() override {}

  CacheStats stats() const override {
    CacheStats stats;
    stats.used_bytes = blocks_.used_bytes();
    stats.budget_bytes = blocks_.budget_bytes();
    stats.misses = misses_;
    stats.lookup_tokens = lookup_tokens_;
    return stats;
  }

  void CheckIntegrity() const override {
    if (blocks_.used_bytes() > blocks_.budget_bytes()) {
      spdlog::critical("[cache] the block store is over its budget");
      std::abort();
    }
  }

 private:
  void Shrink(Lease& lease, const std::vector<std::size_t>& sizes) {
    for (std::size_t g = 0; g < lease.block_tables_.size(); ++g) {
      auto& table = lease.block_tables_[g];
      for (; table.size() > sizes[g]; table.pop_back()) {
        if (table.back() != ops::kNoBlock) {
          blocks_.Free(static_cast<int>(g), table.back());
        }
      }
    }
  }

  ops::BlockStore& blocks_;
  std::uint64_t misses_ = 0;
  std::uint64_t lookup_tokens_ = 0;
};

std::unique_ptr<PrefixCache> MakeNaiveCache(ops::BlockStore& blocks) {
  return std::make_unique<NaiveCache>(blocks);
}

}  // namespace cache
