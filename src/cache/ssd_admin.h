#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cache/ssd_folder.h"

namespace cache {

// What `emberbank cache` does with the disk tier's directory, whether servers use it or not: a file
// that goes is a miss for them.
class SsdAdmin {
 public:
  // One model's files (docs/kv_file_format.md, "Folder").
  struct Namespace {
    std::string folder;                   // the fingerprint, or "damaged"
    std::string model = {};               // empty: about.json does not say
    std::optional<KvFileSpec> spec = {};  // the same
    std::uint64_t files = 0;
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;
    SsdIndex::Time last_use = {};
  };
  struct FileName {
    std::string folder;
    std::string name;
    std::uint64_t bytes = 0;
  };
  struct Checked {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    std::vector<std::string> damaged = {};     // what is wrong, a line each
    std::vector<std::string> unreadable = {};  // by this build, or now: left alone
  };
  using OnProgress = std::function<void(double share)>;

  // `files` must outlive it.
  SsdAdmin(FileSystem& files, std::filesystem::path root);

  // Reads the listing; kNotFound when there is no such directory.
  [[nodiscard]] IoResult<void> List() { return folder_.List(); }

  // `model`: a name, or the start of a fingerprint; empty: all. By name, damaged files last.
  [[nodiscard]] std::vector<Namespace> Namespaces(const std::string& model = {}) const;
  [[nodiscard]] const SsdFolder& folder() const { return folder_; }

  // The budget of a server that is not told another.
  [[nodiscard]] std::uint64_t StandardBudget() const;
  // What has to go so that the rest is within the budget; damaged files all.
  [[nodiscard]] std::vector<FileName> Garbage(std::uint64_t budget_bytes) const;
  // The files that went.
  std::uint64_t Remove(const std::vector<FileName>& names);
  void Clear(const Namespace& space) { folder_.Clear(space.folder); }

  // Reads every file and compares with its checksums; `set_aside` moves the damaged ones.
  Checked Verify(const std::vector<Namespace>& spaces, bool set_aside,
                 const OnProgress& on_progress);

  // Copies whole files into `to`'s directory, which may be of another machine; files that are there
  // are not copied again. What is damaged stays behind. An error ends it: the disk of `to`.
  [[nodiscard]] IoResult<Checked> CopyTo(SsdAdmin& to, const std::vector<Namespace>& spaces,
                                         const OnProgress& on_progress) const;

 private:
  [[nodiscard]] std::vector<FileName> FilesOf(const std::string& folder) const;
  [[nodiscard]] bool IsWhole(const Namespace& space, const FileName& file, Checked& checked) const;
  void ReadAbout(Namespace& space) const;

  FileSystem& files_;
  SsdFolder folder_;
};

}  // namespace cache
