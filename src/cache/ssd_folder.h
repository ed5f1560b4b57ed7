#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "cache/kv_file.h"
#include "cache/ssd_index.h"

namespace cache {

// The disk tier's folder: every change of it, and the index kept in step. What SsdStore's threads
// and `emberbank cache` share. Thread-safe; no lock is held while the disk works.
class SsdFolder {
 public:
  struct Counters {
    std::atomic<std::uint64_t> evicted_files = 0;
    std::atomic<std::uint64_t> damaged_files = 0;
  };

  // `own` is the namespace (fingerprint) whose blocks can be found; may be empty.
  SsdFolder(FileSystem& files, std::filesystem::path root, std::string own);

  // Makes the folders. Removes what processes that died left, and reads the listing.
  [[nodiscard]] IoResult<void> Open();
  // Makes the index agree with the folder, which other processes change too.
  [[nodiscard]] IoResult<void> List();

  // Removes files until `bytes` more fit into the budget; false when they cannot.
  bool MakeRoom(std::uint64_t bytes, std::uint64_t budget_bytes);
  // Writes under a temporary name, renames, syncs.
  [[nodiscard]] IoResult<void> Write(const KvFileSpec& spec, const Segment& segment);
  // Writes a copy of another directory's file into `folder`, which is made where it is not there.
  [[nodiscard]] IoResult<void> Copy(const std::string& folder, const std::string& name,
                                    ReadableFile& from);
  // True when the file is gone, whoever removed it.
  bool Remove(const std::string& folder, const std::string& name);
  // Moves a file that failed a check aside.
  void SetAside(const std::string& folder, const std::string& name, const std::string& why);
  // Removes all files of a namespace (or of damaged/).
  void Clear(const std::string& folder);
  // Adds to the count of bytes ever written, and returns it.
  std::uint64_t AddWear(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t Wear() const;

  [[nodiscard]] std::filesystem::path PathOf(const std::string& folder,
                                             const std::string& name) const;
  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] const std::string& own() const { return own_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Runs `look(index)` under the index's lock.
  template <class Look>
  auto With(const Look& look) const {
    const std::lock_guard lock(mutex_);
    return look(index_);
  }
  template <class Look>
  auto With(const Look& look) {
    const std::lock_guard lock(mutex_);
    return look(index_);
  }

 private:
  using Fill = std::function<IoResult<void>(WritableFile&)>;
  [[nodiscard]] IoResult<void> WriteFile(const std::string& folder, const std::string& name,
                                         std::uint64_t bytes, const Fill& fill);
  [[nodiscard]] IoResult<void> ListFolder(const std::string& folder);

  FileSystem& files_;
  const std::filesystem::path root_;
  const std::string own_;
  Counters counters_;
  mutable std::mutex mutex_;
  SsdIndex index_;  // guarded by mutex_
};

}  // namespace cache
