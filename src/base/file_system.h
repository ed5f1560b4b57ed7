#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

// Why a file operation failed. `message` names the operation, the path and the system's reason.
struct IoError {
  enum class Kind {
    kNotFound,
    kExists,
    kNoSpace,    // disk or quota full
    kTruncated,  // the file ends before what was to be read
    kOther,
  };
  Kind kind = Kind::kOther;
  std::string message;
};

template <class T>
using IoResult = tl::expected<T, IoError>;

// A file that is being written from its start. Closed by the destructor. One thread at a time.
class WritableFile {
 public:
  WritableFile() = default;
  WritableFile(const WritableFile&) = delete;
  WritableFile& operator=(const WritableFile&) = delete;
  virtual ~WritableFile() = default;

  [[nodiscard]] virtual IoResult<void> Append(std::span<const std::byte> bytes) = 0;
  // Returns when the content would survive a loss of power (the name: SyncDirectory).
  [[nodiscard]] virtual IoResult<void> Sync() = 0;
};

// A file that is read at any place. Thread-safe.
class ReadableFile {
 public:
  ReadableFile() = default;
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  virtual ~ReadableFile() = default;

  [[nodiscard]] virtual std::uint64_t size() const = 0;
  // Fills `out` with the bytes from `offset` on; kTruncated when there are fewer.
  [[nodiscard]] virtual IoResult<void> ReadAt(std::uint64_t offset, std::span<std::byte> out) = 0;
};

struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
  std::uint64_t size = 0;
  std::chrono::system_clock::time_point modified;
};

// Files, behind an interface so that tests can fail them. Thread-safe. Symbolic links are not
// followed by List and Remove.
class FileSystem {
 public:
  FileSystem() = default;
  FileSystem(const FileSystem&) = delete;
  FileSystem& operator=(const FileSystem&) = delete;
  virtual ~FileSystem() = default;

  using Path = std::filesystem::path;

  [[nodiscard]] virtual IoResult<std::unique_ptr<ReadableFile>> OpenForRead(const Path& path) = 0;
  // A new file, mode 0600, locked for this process until it is closed; kExists when there is one.
  [[nodiscard]] virtual IoResult<std::unique_ptr<WritableFile>> Create(const Path& path) = 0;
  // Replaces `to` in one step.
  [[nodiscard]] virtual IoResult<void> Rename(const Path& from, const Path& to) = 0;
  [[nodiscard]] virtual IoResult<void> Remove(const Path& path) = 0;  // a file or an empty folder
  // With parents; new ones get mode 0700. No error when it is there.
  [[nodiscard]] virtual IoResult<void> CreateDirectories(const Path& path) = 0;
  // Makes the names in the folder survive a loss of power.
  [[nodiscard]] virtual IoResult<void> SyncDirectory(const Path& path) = 0;
  // In no order; files that vanish meanwhile are left out.
  [[nodiscard]] virtual IoResult<std::vector<DirectoryEntry>> List(const Path& path) = 0;
  // Sets the modification time to now.
  [[nodiscard]] virtual IoResult<void> Touch(const Path& path) = 0;
  // Removes a file that Create made when no living process holds it open; true when it did.
  [[nodiscard]] virtual IoResult<bool> RemoveIfAbandoned(const Path& path) = 0;
  // Reads the whole small file, replaces its content by what `change` makes of it; one process at
  // a time. A file that is not there reads as empty. Not atomic against a loss of power.
  [[nodiscard]] virtual IoResult<void> Update(
      const Path& path, const std::function<std::string(std::string_view)>& change) = 0;
  // Bytes that the file system of `path` can still take from this user.
  [[nodiscard]] virtual IoResult<std::uint64_t> FreeBytes(const Path& path) = 0;
  // Asks the system to forget its copy of a synced file in memory, so that the next read is the
  // disk's own; it may not listen. For measurements.
  virtual void ForgetCached(const Path& path) = 0;
};

// The machine's own files. No state: as many as one likes.
[[nodiscard]] std::unique_ptr<FileSystem> MakeOsFileSystem();

// The whole of a file of up to `limit` bytes (more: kOther).
[[nodiscard]] IoResult<std::string> ReadWholeFile(FileSystem& files,
                                                  const std::filesystem::path& path,
                                                  std::uint64_t limit);
