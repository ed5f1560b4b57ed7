#include "cache/ssd_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"

namespace cache {
namespace {

constexpr std::string_view kTemporary = ".tmp";
constexpr const char* kWearFile = "wear";
constexpr std::size_t kCopyBytes = std::size_t{4} << 20U;

bool IsNamespace(std::string_view name) {
  constexpr std::size_t kFingerprintDigits = 64;
  return name.size() == kFingerprintDigits &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Of all stores of this process, since two may write to one folder.
std::uint64_t NextTemporary() {
  static std::atomic<std::uint64_t> next{0};
  return next++;
}

std::uint64_t ParseCount(std::string_view text) {
  std::uint64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

}  // namespace

SsdFolder::SsdFolder(FileSystem& files, std::filesystem::path root, std::string own)
    : files_(files), root_(std::move(root)), own_(std::move(own)), index_(own_) {}

std::filesystem::path SsdFolder::PathOf(const std::string& folder, const std::string& name) const {
  return root_ / folder / name;
}

IoResult<void> SsdFolder::Open() {
  for (const std::string& folder : {own_, std::string(kDamagedFolder)}) {
    if (IoResult<void> made = files_.CreateDirectories(root_ / folder); !made) {
      return made;
    }
  }
  return List();
}

IoResult<void> SsdFolder::List() {
  const IoResult<std::vector<DirectoryEntry>> folders = files_.List(root_);
  if (!folders) {
    return tl::unexpected<IoError>(folders.error());
  }
  for (const DirectoryEntry& folder : *folders) {
    const bool is_ours = IsNamespace(folder.name) || folder.name == kDamagedFolder;
    if (!folder.is_directory || !is_ours) {
      continue;
    }
    if (IoResult<void> listed = ListFolder(folder.name); !listed && folder.name == own_) {
      return listed;
    }
  }
  return {};
}

IoResult<void> SsdFolder::ListFolder(const std::string& folder) {
  const IoResult<std::vector<DirectoryEntry>> entries = files_.List(root_ / folder);
  if (!entries) {
    return tl::unexpected<IoError>(entries.error());
  }
  for (const DirectoryEntry& entry : *entries) {
    if (entry.name.ends_with(kTemporary)) {
      (void)files_.RemoveIfAbandoned(root_ / folder / entry.name);
    }
  }
  const std::lock_guard lock(mutex_);
  for (const DirectoryEntry& entry : *entries) {
    index_.Put(folder, entry);
  }
  index_.KeepOnly(folder, *entries);
  return {};
}

bool SsdFolder::MakeRoom(std::uint64_t bytes, std::uint64_t budget_bytes) {
  std::vector<std::pair<std::string, std::string>> victims;
  With([&](const SsdIndex& index) {
    for (const SsdIndex::FileId id : index.ToEvict(bytes, budget_bytes)) {
      victims.emplace_back(index.FileOf(id)->folder, index.FileOf(id)->name);
    }
  });
  for (const auto& [folder, name] : victims) {
    counters_.evicted_files += Remove(folder, name) ? 1 : 0;
  }
  return With([&](const SsdIndex& index) { return index.used_bytes() + bytes <= budget_bytes; });
}

IoResult<void> SsdFolder::Write(const KvFileSpec& spec, const Segment& segment) {
  const KvFileName name = segment.Name();
  return WriteFile(own_, FormatKvFileName(name), KvFileBytes(spec, name),
                   [&](WritableFile& file) { return WriteKvFile(file, spec, segment); });
}

IoResult<void> SsdFolder::Copy(const std::string& folder, const std::string& name,
                               ReadableFile& from) {
  if (IoResult<void> made = files_.CreateDirectories(root_ / folder); !made) {
    return made;
  }
  return WriteFile(folder, name, from.size(), [&](WritableFile& file) -> IoResult<void> {
    std::vector<std::byte> chunk(kCopyBytes);
    for (std::uint64_t done = 0; done < from.size(); done += chunk.size()) {
      chunk.resize(std::min<std::uint64_t>(kCopyBytes, from.size() - done));
      if (IoResult<void> read = from.ReadAt(done, chunk); !read) {
        return read;
      }
      if (IoResult<void> written = file.Append(chunk); !written) {
        return written;
      }
    }
    return file.Sync();
  });
}

// `fill` writes the content and syncs it.
IoResult<void> SsdFolder::WriteFile(const std::string& folder, const std::string& name,
                                    std::uint64_t bytes, const Fill& fill) {
  const std::filesystem::path path = PathOf(folder, name);
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}-{}{}", ::getpid(), NextTemporary(), kTemporary);
  const auto write = [&]() -> IoResult<void> {
    IoResult<std::unique_ptr<WritableFile>> file = files_.Create(temporary);
    if (!file) {
      return tl::unexpected<IoError>(file.error());
    }
    if (IoResult<void> written = fill(**file); !written) {
      return written;
    }
    // Closed after the rename: until then its lock says that it is not abandoned.
    return files_.Rename(temporary, path);
  };
  if (IoResult<void> written = write(); !written) {
    (void)files_.Remove(temporary);
    return written;
  }
  if (IoResult<void> synced = files_.SyncDirectory(path.parent_path()); !synced) {
    return synced;
  }
  With([&](SsdIndex& index) {
    index.Put(folder, {.name = name,
                       .is_directory = false,
                       .size = bytes,
                       .modified = std::chrono::system_clock::now()});
  });
  return {};
}

void SsdFolder::SetAside(const std::string& folder, const std::string& name,
                         const std::string& why) {
  ++counters_.damaged_files;
  spdlog::warn("[ssd cache] a damaged file is set aside: {}", why);
  const std::filesystem::path from = PathOf(folder, name);
  const std::string damaged(kDamagedFolder);
  const std::uint64_t bytes = With([&](SsdIndex& index) {
    std::uint64_t size = 0;
    for (const auto& [id, file] : index.all()) {
      size = file.folder == folder && file.name == name ? file.bytes : size;
    }
    index.Erase(folder, name);
    return size;
  });
  if (files_.Rename(from, PathOf(damaged, name))) {
    With([&](SsdIndex& index) {
      index.Put(damaged, {.name = name, .is_directory = false, .size = bytes, .modified = {}});
    });
  } else {
    (void)files_.Remove(from);
  }
}

void SsdFolder::Clear(const std::string& folder) {
  std::vector<std::string> names;
  With([&](const SsdIndex& index) {
    for (const auto& [id, file] : index.all()) {
      if (file.folder == folder) {
        names.push_back(file.name);
      }
    }
  });
  for (const std::string& name : names) {
    Remove(folder, name);
  }
}

bool SsdFolder::Remove(const std::string& folder, const std::string& name) {
  const IoResult<void> removed = files_.Remove(PathOf(folder, name));
  if (!removed && removed.error().kind != IoError::Kind::kNotFound) {
    return false;
  }
  With([&](SsdIndex& index) { index.Erase(folder, name); });
  return true;
}

std::uint64_t SsdFolder::AddWear(std::uint64_t bytes) {
  std::uint64_t total = bytes;
  const auto add = [&](std::string_view old) {
    total = ParseCount(old) + bytes;
    return std::to_string(total);
  };
  (void)files_.Update(root_ / kWearFile, add);
  return total;
}

std::uint64_t SsdFolder::Wear() const {
  constexpr std::uint64_t kMaxDigits = 64;
  return ParseCount(ReadWholeFile(files_, root_ / kWearFile, kMaxDigits).value_or(""));
}

}  // namespace cache
