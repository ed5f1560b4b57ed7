#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/file_system.h"
#include "cache/kv_file.h"
#include "cache/ssd_options.h"
#include "cache/ssd_stats.h"

namespace cache {

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

// The disk tier: segments in a folder (docs/kv_file_format.md), written and read by threads of its
// own. Whatever happens to the disk, what it returns is what was written; the rest is a miss that
// is counted and logged. Thread-safe; nothing here waits for the disk but Clear, WaitUntilIdle and
// the destructor.
class SsdStore {
 public:
  // Starts the threads; the folder is listed behind the caller's back. `files` must outlive it.
  // `wake` is called by its threads when the caller should look again: something was read, there is
  // room to write, or the index is ready.
  SsdStore(SsdOptions options, FileSystem& files, std::function<void()> wake);
  // Writes what is queued, within ten seconds.
  ~SsdStore();
  SsdStore(const SsdStore&) = delete;
  SsdStore& operator=(const SsdStore&) = delete;

  // The folder has been listed, or cannot be.
  [[nodiscard]] bool ready() const;

  // Groups of the block that the index knows.
  [[nodiscard]] GroupMask GroupsOf(const BlockKey& key) const;

  // Tells that the blocks' files were used, for eviction.
  void NoteUse(const std::vector<BlockKey>& keys);

  // Whether Write would take a segment of so many bytes.
  [[nodiscard]] bool HasRoom(std::uint64_t bytes) const;
  // Queues the segment; false (and counted) when there is no room.
  bool Write(Segment segment);
  // Counts blocks that were lost since HasRoom said no.
  void CountDropped(std::uint64_t blocks);

  using ReadId = std::uint64_t;
  // Begins to read the blocks, in this order.
  [[nodiscard]] ReadId StartRead(std::vector<WantedBlock> wanted);
  struct ReadProgress {
    std::vector<BlockRead> blocks;  // those that came since the last call, in order
    bool ended = false;             // no more will come
    bool failed = false;            // ... because one could not be read
  };
  [[nodiscard]] ReadProgress TakeRead(ReadId id);
  // Takes back what TakeRead gave, for the next blocks: fresh memory costs a page fault every 4
  // KiB, in all as much as the reading.
  void Recycle(BlockRead block);
  // Forgets the read, whether it has ended or not.
  void EndRead(ReadId id);

  // Removes this namespace's files and what is queued for it.
  void Clear();
  // Until nothing is queued and the folder is listed.
  void WaitUntilIdle();

  [[nodiscard]] SsdStats stats() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cache
