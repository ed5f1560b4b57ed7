#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/file_system.h"
#include "cache/lower_tier.h"
#include "cache/ssd_options.h"
#include "cache/ssd_stats.h"

namespace cache {

// The disk tier: segments in a folder (docs/kv_file_format.md), written and read by threads of its
// own. Whatever happens to the disk, what it returns is what was written; the rest is a miss that
// is counted and logged. Thread-safe; nothing here waits for the disk but Clear, WaitUntilIdle and
// the destructor.
class SsdStore final : public LowerTier {
 public:
  // Starts the threads; the folder is listed behind the caller's back. `files` must outlive it.
  // `wake` is called by its threads when the caller should look again: something was read, there is
  // room to write, or the index is ready.
  SsdStore(SsdOptions options, FileSystem& files, std::function<void()> wake);
  // Writes what is queued, within ten seconds.
  ~SsdStore() override;

  // The folder has been listed, or cannot be.
  [[nodiscard]] bool ready() const;

  // Groups of the block that the index knows.
  [[nodiscard]] GroupMask GroupsOf(const BlockKey& key) const;

  // Tells that the blocks' files were used, for eviction.
  void NoteUse(const std::vector<BlockKey>& keys);

  bool HasRoom(std::uint64_t bytes) const override;
  bool Write(Segment segment) override;
  void CountDropped(std::uint64_t blocks) override;
  ReadId StartRead(std::vector<WantedBlock> wanted) override;
  ReadProgress TakeRead(ReadId id) override;
  void Recycle(BlockRead block) override;
  void EndRead(ReadId id) override;

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
