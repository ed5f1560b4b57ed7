#include "base/memory_file_system.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace {

tl::unexpected<IoError> Failed(IoError::Kind kind, std::string_view what,
                               const FileSystem::Path& path) {
  return tl::unexpected<IoError>(
      IoError{.kind = kind, .message = fmt::format("{}: {}", path.string(), what)});
}

bool Changes(MemoryFileSystem::Operation operation) {
  using Operation = MemoryFileSystem::Operation;
  return operation != Operation::kOpen && operation != Operation::kRead &&
         operation != Operation::kList;
}

}  // namespace

class MemoryFileSystem::Writer final : public WritableFile {
 public:
  Writer(MemoryFileSystem& files, Path path, Entry inode)
      : files_(files), path_(std::move(path)), inode_(std::move(inode)) {}
  ~Writer() override {
    const std::lock_guard lock(files_.mutex_);
    --inode_->writers;
  }

  IoResult<void> Append(std::span<const std::byte> bytes) override {
    if (IoResult<void> begun = files_.Begin(Operation::kAppend, path_); !begun) {
      return begun;
    }
    const std::lock_guard lock(files_.mutex_);
    const std::uint64_t used = files_.UsedLocked();
    const std::uint64_t room = files_.capacity_ > used ? files_.capacity_ - used : 0;
    const std::size_t n = std::min<std::uint64_t>(bytes.size(), room);
    inode_->data.append(reinterpret_cast<const char*>(bytes.data()), n);
    return n == bytes.size() ? IoResult<void>()
                             : Failed(IoError::Kind::kNoSpace, "no space left on the disk", path_);
  }

  IoResult<void> Sync() override {
    if (IoResult<void> begun = files_.Begin(Operation::kSync, path_); !begun) {
      return begun;
    }
    const std::lock_guard lock(files_.mutex_);
    inode_->synced = inode_->data;
    return {};
  }

 private:
  MemoryFileSystem& files_;
  Path path_;
  Entry inode_;
};

class MemoryFileSystem::Reader final : public ReadableFile {
 public:
  Reader(MemoryFileSystem& files, Path path, Entry inode)
      : files_(files), path_(std::move(path)), inode_(std::move(inode)) {}

  std::uint64_t size() const override {
    const std::lock_guard lock(files_.mutex_);
    return inode_->data.size();
  }
  IoResult<void> ReadAt(std::uint64_t offset, std::span<std::byte> out) override {
    if (IoResult<void> begun = files_.Begin(Operation::kRead, path_); !begun) {
      return begun;
    }
    const std::lock_guard lock(files_.mutex_);
    if (offset + out.size() > inode_->data.size()) {
      return Failed(IoError::Kind::kTruncated, "the file ends early", path_);
    }
    std::memcpy(out.data(), inode_->data.data() + offset, out.size());
    return {};
  }

 private:
  MemoryFileSystem& files_;
  Path path_;
  Entry inode_;
};

void MemoryFileSystem::SetFault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void MemoryFileSystem::SetCapacity(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  capacity_ = bytes;
}

void MemoryFileSystem::KillAfter(int changes) {
  const std::lock_guard lock(mutex_);
  killed_from_ = changes_ + changes;
}

void MemoryFileSystem::Restart() {
  const std::lock_guard lock(mutex_);
  killed_from_ = -1;
  killed_ = false;
  for (auto& [path, inode] : entries_) {
    inode->writers = 0;
  }
}

void MemoryFileSystem::LosePower(std::uint32_t seed) {
  Restart();
  const std::lock_guard lock(mutex_);
  std::mt19937 random(seed);
  std::set<Path> names;
  for (const auto* from : {&entries_, &durable_}) {
    for (const auto& [path, inode] : *from) {
      names.insert(path);
    }
  }
  std::map<Path, Entry> left;
  for (const Path& path : names) {
    const std::map<Path, Entry>& from = random() % 2 == 0 ? entries_ : durable_;
    if (const auto found = from.find(path); found != from.end()) {
      left[path] = found->second;
    }
  }
  for (auto& [path, inode] : left) {
    if (inode->data == inode->synced) {
      continue;
    }
    const std::size_t kept = random() % (inode->data.size() + 1);
    switch (random() % 3) {
      case 0:
        inode->data = inode->synced;
        break;
      case 1:
        inode->data.resize(kept);
        break;
      default:  // the length reached the disk before the content
        std::fill(inode->data.begin() + static_cast<std::ptrdiff_t>(kept), inode->data.end(), '\0');
    }
    inode->synced = inode->data;
  }
  entries_ = left;
  durable_ = std::move(left);
}

void MemoryFileSystem::FlipBit(const Path& path, std::uint64_t bit) {
  const std::lock_guard lock(mutex_);
  char& byte = entries_.at(path)->data.at(bit / 8);
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << (bit % 8)));
}

void MemoryFileSystem::Truncate(const Path& path, std::uint64_t size) {
  const std::lock_guard lock(mutex_);
  entries_.at(path)->data.resize(size);
}

void MemoryFileSystem::SetModified(const Path& path, std::chrono::system_clock::time_point time) {
  const std::lock_guard lock(mutex_);
  entries_.at(path)->modified = time;
}

std::vector<FileSystem::Path> MemoryFileSystem::Files() const {
  const std::lock_guard lock(mutex_);
  std::vector<Path> files;
  for (const auto& [path, inode] : entries_) {
    files.push_back(path);
  }
  return files;
}

std::string MemoryFileSystem::Content(const Path& path) const {
  const std::lock_guard lock(mutex_);
  return entries_.at(path)->data;
}

std::uint64_t MemoryFileSystem::UsedBytes() const {
  const std::lock_guard lock(mutex_);
  return UsedLocked();
}

int MemoryFileSystem::changes() const {
  const std::lock_guard lock(mutex_);
  return changes_;
}

std::uint64_t MemoryFileSystem::UsedLocked() const {
  std::uint64_t used = 0;
  for (const auto& [path, inode] : entries_) {
    used += inode->data.size();
  }
  return used;
}

// Later than any time given before, so that "last used" is never a tie.
std::chrono::system_clock::time_point MemoryFileSystem::NowLocked() {
  return std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000 + ++ticks_));
}

IoResult<void> MemoryFileSystem::Begin(Operation operation, const Path& path) {
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    if (Changes(operation)) {
      killed_ = killed_ || changes_ == killed_from_;
      changes_ += killed_ ? 0 : 1;
    }
    if (killed_) {
      return Failed(IoError::Kind::kOther, "the process was killed", path);
    }
    fault = fault_;
  }
  if (fault) {
    if (std::optional<IoError> error = fault(operation, path)) {
      return tl::unexpected<IoError>(std::move(*error));
    }
  }
  return {};
}

IoResult<std::unique_ptr<ReadableFile>> MemoryFileSystem::OpenForRead(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kOpen, path); !begun) {
    return tl::unexpected<IoError>(begun.error());
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end()) {
    return Failed(IoError::Kind::kNotFound, "no such file", path);
  }
  return std::make_unique<Reader>(*this, path, found->second);
}

IoResult<std::unique_ptr<WritableFile>> MemoryFileSystem::Create(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kCreate, path); !begun) {
    return tl::unexpected<IoError>(begun.error());
  }
  const std::lock_guard lock(mutex_);
  if (std::find(folders_.begin(), folders_.end(), path.parent_path()) == folders_.end()) {
    return Failed(IoError::Kind::kNotFound, "no such folder", path);
  }
  Entry& entry = entries_[path];
  if (entry != nullptr) {
    return Failed(IoError::Kind::kExists, "the file is there", path);
  }
  entry = std::make_shared<Inode>();
  entry->modified = NowLocked();
  ++entry->writers;
  return std::make_unique<Writer>(*this, path, entry);
}

IoResult<void> MemoryFileSystem::Rename(const Path& from, const Path& to) {
  if (IoResult<void> begun = Begin(Operation::kRename, from); !begun) {
    return begun;
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(from);
  if (found == entries_.end()) {
    return Failed(IoError::Kind::kNotFound, "no such file", from);
  }
  Entry moved = std::move(found->second);
  entries_.erase(found);
  entries_[to] = std::move(moved);
  return {};
}

IoResult<void> MemoryFileSystem::Remove(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kRemove, path); !begun) {
    return begun;
  }
  const std::lock_guard lock(mutex_);
  if (entries_.erase(path) > 0 || std::erase(folders_, path) > 0) {
    return {};
  }
  return Failed(IoError::Kind::kNotFound, "no such file", path);
}

IoResult<void> MemoryFileSystem::CreateDirectories(const Path& path) {
  const std::lock_guard lock(mutex_);
  for (Path each = path; each.has_relative_path(); each = each.parent_path()) {
    if (std::find(folders_.begin(), folders_.end(), each) == folders_.end()) {
      folders_.push_back(each);
    }
  }
  return {};
}

IoResult<void> MemoryFileSystem::SyncDirectory(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kSyncDirectory, path); !begun) {
    return begun;
  }
  const std::lock_guard lock(mutex_);
  std::erase_if(durable_, [&](const auto& entry) { return entry.first.parent_path() == path; });
  for (const auto& [name, inode] : entries_) {
    if (name.parent_path() == path) {
      durable_[name] = inode;
    }
  }
  return {};
}

IoResult<std::vector<DirectoryEntry>> MemoryFileSystem::List(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kList, path); !begun) {
    return tl::unexpected<IoError>(begun.error());
  }
  const std::lock_guard lock(mutex_);
  if (std::find(folders_.begin(), folders_.end(), path) == folders_.end()) {
    return Failed(IoError::Kind::kNotFound, "no such folder", path);
  }
  std::vector<DirectoryEntry> listing;
  for (const auto& [name, inode] : entries_) {
    if (name.parent_path() == path) {
      listing.push_back({.name = name.filename().string(),
                         .is_directory = false,
                         .size = inode->data.size(),
                         .modified = inode->modified});
    }
  }
  for (const Path& folder : folders_) {
    if (folder.parent_path() == path && folder != path) {
      listing.push_back(
          {.name = folder.filename().string(), .is_directory = true, .size = 0, .modified = {}});
    }
  }
  return listing;
}

IoResult<void> MemoryFileSystem::Touch(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kTouch, path); !begun) {
    return begun;
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end()) {
    return Failed(IoError::Kind::kNotFound, "no such file", path);
  }
  found->second->modified = NowLocked();
  return {};
}

IoResult<bool> MemoryFileSystem::RemoveIfAbandoned(const Path& path) {
  if (IoResult<void> begun = Begin(Operation::kRemove, path); !begun) {
    return tl::unexpected<IoError>(begun.error());
  }
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second->writers > 0) {
    return false;
  }
  entries_.erase(found);
  return true;
}

IoResult<void> MemoryFileSystem::Update(
    const Path& path, const std::function<std::string(std::string_view)>& change) {
  if (IoResult<void> begun = Begin(Operation::kUpdate, path); !begun) {
    return begun;
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[path];
  if (entry == nullptr) {
    entry = std::make_shared<Inode>();
  }
  entry->data = change(entry->data);
  entry->modified = NowLocked();
  return {};
}

IoResult<std::uint64_t> MemoryFileSystem::FreeBytes(const Path& /*path*/) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t used = UsedLocked();
  return capacity_ > used ? capacity_ - used : 0;
}
