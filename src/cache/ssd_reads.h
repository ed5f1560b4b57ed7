#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "cache/ssd_folder.h"
#include "cache/ssd_store.h"

namespace cache {

// The reading half of SsdStore: reads, each split into runs of blocks that lie together, which
// reader threads work off in order. A run starts only while the bytes read and not yet taken are
// below the limit. Thread-safe.
class SsdReads {
 public:
  SsdReads(FileSystem& files, SsdFolder& folder, const KvFileSpec& spec,
           std::uint64_t read_ahead_bytes, const std::function<void()>& wake);

  // What a reader thread does until Stop.
  void RunReader();
  void Stop();

  [[nodiscard]] SsdStore::ReadId Start(std::vector<WantedBlock> wanted);
  [[nodiscard]] SsdStore::ReadProgress Take(SsdStore::ReadId id);
  void Recycle(BlockRead block);
  void End(SsdStore::ReadId id);

  void AddTo(SsdStats& stats) const;

 private:
  struct Run {
    SsdStore::ReadId read = 0;
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
  class OpenFiles;

  [[nodiscard]] std::uint64_t BytesOf(const BlockRead& block) const;
  [[nodiscard]] std::uint64_t BytesOf(const WantedBlock& block) const;
  void DoRun(const Run& run);
  [[nodiscard]] std::vector<std::byte> TakeBuffer(std::uint64_t bytes);
  [[nodiscard]] std::optional<BlockRead> ReadBlock(OpenFiles& open, const WantedBlock& wanted);
  void NoteFailure(const std::string& name, const KvFileError& error);

  FileSystem& files_;
  SsdFolder& folder_;
  const KvFileSpec spec_;
  const std::uint64_t read_ahead_bytes_;
  const std::function<void()>& wake_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  // Guarded by mutex_:
  std::deque<Run> runs_;
  std::map<SsdStore::ReadId, Read> reads_;
  SsdStore::ReadId next_id_ = 1;
  std::uint64_t staged_bytes_ = 0;             // of runs under way and of blocks not yet taken
  std::vector<std::vector<std::byte>> spare_;  // while there are reads
  bool stopping_ = false;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t read_blocks_ = 0;
  std::uint64_t read_errors_ = 0;
};

}  // namespace cache
