#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "cache/lower_tier.h"

namespace cache {

// One read over the lower tiers, of which each brings its part; what came is taken in the order in
// which it was wanted. Used by the engine thread only; waits for nothing.
class MergedRead {
 public:
  using Stores = std::array<LowerTier*, kLowerTiers>;  // [Tier], null where there is none
  struct Wanted {
    WantedBlock block;                             // `groups`: all that are wanted
    std::array<GroupMask, kLowerTiers> groups{};  // [Tier] those that it shall bring
  };

  // The stores must outlive it.
  MergedRead(const Stores& stores, std::vector<Wanted> wanted);
  ~MergedRead();
  MergedRead(const MergedRead&) = delete;
  MergedRead& operator=(const MergedRead&) = delete;

  [[nodiscard]] ReadProgress Take();
  void Recycle(BlockRead block);

  // Groups of the wanted block at `place` that come from the tier.
  [[nodiscard]] GroupMask GroupsFrom(Tier tier, std::size_t place) const {
    return wanted_[place].groups[static_cast<std::size_t>(tier)];
  }

 private:
  struct Part {
    LowerTier* store = nullptr;
    std::optional<ReadId> id;
    std::vector<std::size_t> places;  // of its blocks among all
    std::size_t taken = 0;            // of its blocks
  };
  void TakeFrom(Part& part);
  [[nodiscard]] bool HasAll(std::size_t place) const;

  std::vector<Wanted> wanted_;
  std::array<Part, kLowerTiers> parts_;
  std::map<std::size_t, BlockRead> arrived_;  // by place, perhaps lacking a tier's groups
  std::size_t next_ = 0;                      // place to be taken next
  std::size_t end_ = 0;                       // nothing comes from here on
};

}  // namespace cache
