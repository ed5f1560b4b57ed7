#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "base/file_system.h"

// For tests: files in memory, with everything that can go wrong with a disk. Outlives its files.
class MemoryFileSystem final : public FileSystem {
 public:
  enum class Operation {
    kOpen,
    kRead,
    kCreate,
    kAppend,
    kSync,
    kRename,
    kRemove,
    kSyncDirectory,
    kList,
    kTouch,
    kUpdate
  };

  // Called before each operation, without any lock held: may wait (a slow disk) or return the
  // error that the operation ends with.
  using Fault = std::function<std::optional<IoError>(Operation operation, const Path& path)>;
  void SetFault(Fault fault);
  // Bytes that all files may take together; an Append beyond them takes what fits and fails.
  void SetCapacity(std::uint64_t bytes);
  // kill -9: from the n-th change of the disk from now on (0: the next one), every operation fails.
  void KillAfter(int changes);
  // A new process: nothing is killed, open or locked any more.
  void Restart();
  // As Restart, after a loss of power: what was not fsynced is there, in part there, or not.
  void LosePower(std::uint32_t seed);

  void FlipBit(const Path& path, std::uint64_t bit);
  void Truncate(const Path& path, std::uint64_t size);
  void SetModified(const Path& path, std::chrono::system_clock::time_point time);
  [[nodiscard]] std::vector<Path> Files() const;  // sorted
  [[nodiscard]] std::string Content(const Path& path) const;
  [[nodiscard]] std::uint64_t UsedBytes() const;
  [[nodiscard]] int changes() const;  // of the disk so far

  IoResult<std::unique_ptr<ReadableFile>> OpenForRead(const Path& path) override;
  IoResult<std::unique_ptr<WritableFile>> Create(const Path& path) override;
  IoResult<void> Rename(const Path& from, const Path& to) override;
  IoResult<void> Remove(const Path& path) override;
  IoResult<void> CreateDirectories(const Path& path) override;
  IoResult<void> SyncDirectory(const Path& path) override;
  IoResult<std::vector<DirectoryEntry>> List(const Path& path) override;
  IoResult<void> Touch(const Path& path) override;
  IoResult<bool> RemoveIfAbandoned(const Path& path) override;
  IoResult<void> Update(const Path& path,
                        const std::function<std::string(std::string_view)>& change) override;
  IoResult<std::uint64_t> FreeBytes(const Path& path) override;
  void ForgetCached(const Path& /*path*/) override {}

 private:
  struct Inode {
    std::string data;
    std::string synced;  // survives a loss of power
    std::chrono::system_clock::time_point modified;
    int writers = 0;
  };
  // Shared by the directory and by open files, which outlive their names.
  using Entry = std::shared_ptr<Inode>;
  class Writer;
  class Reader;

  // Asks the fault, and counts a change.
  [[nodiscard]] IoResult<void> Begin(Operation operation, const Path& path);
  [[nodiscard]] std::uint64_t UsedLocked() const;
  [[nodiscard]] std::chrono::system_clock::time_point NowLocked();

  mutable std::mutex mutex_;
  Fault fault_;
  std::uint64_t capacity_ = std::uint64_t{1} << 40U;
  int changes_ = 0;
  int killed_from_ = -1;  // number of the first change that fails
  bool killed_ = false;
  std::uint64_t ticks_ = 0;
  std::map<Path, Entry> entries_;
  std::map<Path, Entry> durable_;  // names as of the last SyncDirectory of their folder
  std::vector<Path> folders_;
};
