#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cache/kv_file.h"

namespace cache {

// The tiers below memory, nearest first.
enum class Tier : std::uint8_t { kDisk, kRemote };
inline constexpr std::size_t kLowerTiers = 2;

// One block that a read shall bring.
struct WantedBlock {
  BlockKey key{};
  BlockTokens tokens{};
  GroupMask groups = 0;
};

// One that it brought. Groups that were not wanted are empty.
struct BlockRead {
  std::size_t wanted = 0;  // its place in what was wanted
  std::vector<std::vector<std::byte>> groups;
};

using ReadId = std::uint64_t;
struct ReadProgress {
  std::vector<BlockRead> blocks;  // those that came since the last call, in order
  bool ended = false;             // no more will come
  bool failed = false;            // ... because one could not be read
};

// What RadixCache and WriteBehind do with a tier below memory. Thread-safe; nothing here waits for
// the tier. What it returns is what was written; the rest is a miss that is counted.
class LowerTier {
 public:
  LowerTier() = default;
  LowerTier(const LowerTier&) = delete;
  LowerTier& operator=(const LowerTier&) = delete;
  virtual ~LowerTier() = default;

  // Whether Write would take a segment of so many bytes.
  [[nodiscard]] virtual bool HasRoom(std::uint64_t bytes) const = 0;
  // Queues the segment; false (and counted) when there is no room.
  virtual bool Write(Segment segment) = 0;
  // Counts blocks that were lost since HasRoom said no.
  virtual void CountDropped(std::uint64_t blocks) = 0;

  // Begins to read the blocks, in this order.
  [[nodiscard]] virtual ReadId StartRead(std::vector<WantedBlock> wanted) = 0;
  [[nodiscard]] virtual ReadProgress TakeRead(ReadId id) = 0;
  // Takes back what TakeRead gave, for the next blocks: fresh memory costs a page fault every 4
  // KiB, in all as much as the reading.
  virtual void Recycle(BlockRead block) = 0;
  // Forgets the read, whether it has ended or not.
  virtual void EndRead(ReadId id) = 0;
};

}  // namespace cache
