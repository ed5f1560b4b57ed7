#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cache/lower_tier.h"

namespace cache {

// Gives buffers of so many bytes to read into.
using TakeBuffer = std::function<std::vector<std::byte>(std::uint64_t bytes)>;

// Where blocks are read from: a tier's own part of BlockReads. Thread-safe.
class BlockSource {
 public:
  // What one thread keeps open while it reads neighbouring blocks.
  class Session {
   public:
    Session() = default;
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    virtual ~Session() = default;
    // All wanted groups of the block, checked; nothing (and counted there) when one is not to be
    // had. Waits for the tier.
    [[nodiscard]] virtual std::optional<BlockRead> ReadBlock(const WantedBlock& wanted,
                                                             const TakeBuffer& buffers) = 0;
  };

  BlockSource() = default;
  BlockSource(const BlockSource&) = delete;
  BlockSource& operator=(const BlockSource&) = delete;
  virtual ~BlockSource() = default;

  [[nodiscard]] virtual std::unique_ptr<Session> Open() = 0;
};

// The reading half of a lower tier: reads, each split into runs of blocks that lie together, which
// reader threads work off in order. A run starts only while the bytes read and not yet taken are
// below the limit. Thread-safe.
class BlockReads {
 public:
  // `group_bytes`: of a block, [layer group]. `wake` is called when there is something to take.
  BlockReads(BlockSource& source, std::vector<std::uint64_t> group_bytes,
             std::uint64_t read_ahead_bytes, const std::function<void()>& wake);

  // What a reader thread does until Stop.
  void RunReader();
  void Stop();

  // As LowerTier.
  [[nodiscard]] ReadId Start(std::vector<WantedBlock> wanted);
  [[nodiscard]] ReadProgress Take(ReadId id);
  void Recycle(BlockRead block);
  void End(ReadId id);

  struct Totals {
    std::uint64_t staged_bytes = 0;  // of runs under way and of blocks not yet taken
    std::uint64_t read_bytes = 0;
    std::uint64_t read_blocks = 0;
  };
  [[nodiscard]] Totals totals() const;

 private:
  struct Run {
    ReadId read = 0;
    std::size_t begin = 0;  // of the wanted blocks
    std::size_t end = 0;
    std::uint64_t bytes = 0;
    std::vector<WantedBlock> wanted;  // those of the run
  };
  struct Read {
    std::map<std::size_t, BlockRead> arrived;  // by place, not yet taken
    std::size_t next = 0;                      // place to be taken next
    std::size_t end = 0;                       // nothing comes from here on
    std::size_t wanted = 0;                    // blocks
  };

  [[nodiscard]] std::uint64_t BytesOf(const BlockRead& block) const;
  [[nodiscard]] std::uint64_t BytesOf(const WantedBlock& block) const;
  void DoRun(const Run& run);
  [[nodiscard]] std::vector<std::byte> Buffer(std::uint64_t bytes);

  BlockSource& source_;
  const std::vector<std::uint64_t> group_bytes_;
  const std::uint64_t read_ahead_bytes_;
  const std::function<void()>& wake_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_:
  std::deque<Run> runs_;
  std::map<ReadId, Read> reads_;
  ReadId next_id_ = 1;
  std::vector<std::vector<std::byte>> spare_;  // while there are reads
  bool stopping_ = false;
  Totals totals_;
};

}  // namespace cache
