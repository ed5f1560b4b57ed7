#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file_system.h"
#include "cache/kv_file_name.h"

namespace cache {

// What is in the folder of the disk tier, by names and sizes alone. Not thread-safe.
class SsdIndex {
 public:
  using Time = std::chrono::system_clock::time_point;

  // A segment of any namespace, or a file in damaged/.
  struct File {
    std::string folder;  // below the root
    std::string name;
    std::uint64_t bytes = 0;
    Time last_use;
    int uses = 0;
    std::optional<KvFileName> parsed = {};  // empty in damaged/
  };
  using FileId = std::uint64_t;

  struct Place {
    FileId file = 0;
    std::size_t block = 0;  // in the file
  };

  explicit SsdIndex(std::string own_folder) : own_folder_(std::move(own_folder)) {}

  // Adds or updates a file that is on disk. Names that are no segment's and not in damaged/ are
  // not ours and are not taken; false then.
  bool Put(const std::string& folder, const DirectoryEntry& entry);
  void Erase(const std::string& folder, const std::string& name);
  // Forgets the files of `folder` that `present` does not have.
  void KeepOnly(const std::string& folder, const std::vector<DirectoryEntry>& present);

  // Layer groups of the block that are there, in own namespace.
  [[nodiscard]] GroupMask GroupsOf(BlockTag tag) const;
  // Where its group can be read; nothing when it is not there.
  [[nodiscard]] std::optional<Place> Find(BlockTag tag, std::size_t group) const;
  [[nodiscard]] const File* FileOf(FileId id) const;

  void NoteUse(FileId id, Time now);

  // Files to remove, in this order, so that `bytes` fit into `budget_bytes`; fewer when that cannot
  // be. What goes first is described in docs/kv_file_format.md.
  [[nodiscard]] std::vector<FileId> ToEvict(std::uint64_t bytes, std::uint64_t budget_bytes) const;

  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }
  [[nodiscard]] std::uint64_t own_bytes() const { return own_bytes_; }
  [[nodiscard]] std::uint64_t own_blocks() const { return places_.size(); }
  [[nodiscard]] std::uint64_t files() const { return files_.size(); }
  [[nodiscard]] const std::map<FileId, File>& all() const { return files_; }

 private:
  void EraseId(FileId id);

  std::string own_folder_;
  FileId next_id_ = 1;
  std::map<FileId, File> files_;
  std::map<std::pair<std::string, std::string>, FileId, std::less<>> by_name_;
  // Own namespace. A block may be in several files (two servers; a window group that came later).
  std::unordered_map<BlockTag, std::vector<Place>, BlockTagHash> places_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t own_bytes_ = 0;
};

// Name of the folder for damaged files, below the root.
inline constexpr std::string_view kDamagedFolder = "damaged";

}  // namespace cache
