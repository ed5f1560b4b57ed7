// MakeOsFileSystem for POSIX systems.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/file_system.h"

namespace {

using Path = FileSystem::Path;

constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kPrivateFolder = 0700;

IoError::Kind KindOf(int code) {
  switch (code) {
    case ENOENT:
      return IoError::Kind::kNotFound;
    case EEXIST:
    case ENOTEMPTY:
      return IoError::Kind::kExists;
    case ENOSPC:
    case EDQUOT:
      return IoError::Kind::kNoSpace;
    default:
      return IoError::Kind::kOther;
  }
}

tl::unexpected<IoError> Failed(std::string_view what, const Path& path, int code) {
  return tl::unexpected<IoError>(IoError{
      .kind = KindOf(code),
      .message =
          fmt::format("{} {}: {}", what, path.string(), std::generic_category().message(code))});
}

// A file descriptor that is closed in the end.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool open() const { return fd_ >= 0; }

 private:
  int fd_;
};

Descriptor Open(const Path& path, int flags, mode_t mode = 0) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

bool Lock(int fd, int operation) {
  int done = -1;
  do {
    done = ::flock(fd, operation);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

IoResult<void> WriteAll(int fd, std::span<const std::byte> bytes, const Path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0) {
      if (errno == EINTR) {
        continue;
      }
      return Failed("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

// fsync that reaches the medium.
int SyncToMedium(int fd) {
#ifdef F_FULLFSYNC
  if (::fcntl(fd, F_FULLFSYNC) == 0) {
    return 0;
  }
#endif
  return ::fsync(fd);
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(Descriptor file, Path path) : file_(std::move(file)), path_(std::move(path)) {}

  IoResult<void> Append(std::span<const std::byte> bytes) override {
    return WriteAll(file_.get(), bytes, path_);
  }
  IoResult<void> Sync() override {
    if (SyncToMedium(file_.get()) != 0) {
      return Failed("fsync", path_, errno);
    }
    return {};
  }

 private:
  Descriptor file_;
  Path path_;
};

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(Descriptor file, Path path, std::uint64_t size)
      : file_(std::move(file)), path_(std::move(path)), size_(size) {}

  std::uint64_t size() const override { return size_; }

  IoResult<void> ReadAt(std::uint64_t offset, std::span<std::byte> out) override {
    while (!out.empty()) {
      const ssize_t n = ::pread(file_.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0) {
        if (errno == EINTR) {
          continue;
        }
        return Failed("read", path_, errno);
      }
      if (n == 0) {
        return tl::unexpected<IoError>(
            IoError{.kind = IoError::Kind::kTruncated,
                    .message = fmt::format("{} ends at byte {}", path_.string(), offset)});
      }
      offset += static_cast<std::uint64_t>(n);
      out = out.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

 private:
  Descriptor file_;
  Path path_;
  std::uint64_t size_;
};

std::chrono::system_clock::time_point ModifiedTime(const struct stat& info) {
#ifdef __APPLE__
  const timespec& time = info.st_mtimespec;
#else
  const timespec& time = info.st_mtim;
#endif
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

class PosixFileSystem final : public FileSystem {
 public:
  IoResult<std::unique_ptr<ReadableFile>> OpenForRead(const Path& path) override {
    Descriptor file = Open(path, O_RDONLY);
    struct stat info{};
    if (!file.open() || ::fstat(file.get(), &info) != 0) {
      return Failed("open", path, errno);
    }
    return std::make_unique<PosixReadableFile>(std::move(file), path,
                                               static_cast<std::uint64_t>(info.st_size));
  }

  IoResult<std::unique_ptr<WritableFile>> Create(const Path& path) override {
    Descriptor file = Open(path, O_WRONLY | O_CREAT | O_EXCL, kPrivateFile);
    if (!file.open()) {
      return Failed("create", path, errno);
    }
    // Tells RemoveIfAbandoned that somebody lives behind the file; where locks are not supported
    // the file merely looks abandoned, and its rename fails.
    (void)Lock(file.get(), LOCK_EX | LOCK_NB);
    return std::make_unique<PosixWritableFile>(std::move(file), path);
  }

  IoResult<void> Rename(const Path& from, const Path& to) override {
    return ::rename(from.c_str(), to.c_str()) == 0 ? IoResult<void>()
                                                   : Failed("rename", from, errno);
  }

  IoResult<void> Remove(const Path& path) override {
    return std::remove(path.c_str()) == 0 ? IoResult<void>() : Failed("remove", path, errno);
  }

  IoResult<void> CreateDirectories(const Path& path) override {
    if (path.has_parent_path() && path.parent_path() != path &&
        ::access(path.parent_path().c_str(), F_OK) != 0) {
      if (IoResult<void> made = CreateDirectories(path.parent_path()); !made) {
        return made;
      }
    }
    struct stat info{};
    if (::mkdir(path.c_str(), kPrivateFolder) == 0 ||
        (errno == EEXIST && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))) {
      return {};
    }
    return Failed("create folder", path, errno);
  }

  IoResult<void> SyncDirectory(const Path& path) override {
    const Descriptor folder = Open(path, O_RDONLY | O_DIRECTORY);
    if (!folder.open() || SyncToMedium(folder.get()) != 0) {
      return Failed("fsync folder", path, errno);
    }
    return {};
  }

  IoResult<std::vector<DirectoryEntry>> List(const Path& path) override {
    struct Close {
      void operator()(DIR* folder) const { ::closedir(folder); }
    };
    const std::unique_ptr<DIR, Close> folder(::opendir(path.c_str()));
    if (folder == nullptr) {
      return Failed("list", path, errno);
    }
    std::vector<DirectoryEntry> entries;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe): own stream
      if (entry == nullptr) {
        if (errno != 0) {
          return Failed("list", path, errno);
        }
        return entries;
      }
      const std::string_view name = &entry->d_name[0];
      struct stat info{};
      if (name == "." || name == ".." ||
          ::fstatat(::dirfd(folder.get()), &entry->d_name[0], &info, AT_SYMLINK_NOFOLLOW) != 0) {
        continue;
      }
      entries.push_back({.name = std::string(name),
                         .is_directory = S_ISDIR(info.st_mode),
                         .size = static_cast<std::uint64_t>(info.st_size),
                         .modified = ModifiedTime(info)});
    }
  }

  IoResult<void> Touch(const Path& path) override {
    return ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0 ? IoResult<void>()
                                                                : Failed("touch", path, errno);
  }

  IoResult<bool> RemoveIfAbandoned(const Path& path) override {
    const Descriptor file = Open(path, O_RDONLY);
    if (!file.open()) {
      return errno == ENOENT ? IoResult<bool>(false) : Failed("open", path, errno);
    }
    if (!Lock(file.get(), LOCK_EX | LOCK_NB)) {
      return false;
    }
    return ::unlink(path.c_str()) == 0 ? IoResult<bool>(true) : Failed("remove", path, errno);
  }

  IoResult<void> Update(const Path& path,
                        const std::function<std::string(std::string_view)>& change) override {
    const Descriptor file = Open(path, O_RDWR | O_CREAT, kPrivateFile);
    if (!file.open() || !Lock(file.get(), LOCK_EX)) {
      return Failed("open", path, errno);
    }
    std::string text;
    constexpr std::size_t kMost = std::size_t{1} << 20U;
    text.resize(kMost);
    const ssize_t n = ::pread(file.get(), text.data(), text.size(), 0);
    if (n < 0) {
      return Failed("read", path, errno);
    }
    text.resize(static_cast<std::size_t>(n));
    const std::string changed = change(text);
    if (::ftruncate(file.get(), 0) != 0 || ::lseek(file.get(), 0, SEEK_SET) != 0) {
      return Failed("write", path, errno);
    }
    return WriteAll(file.get(), std::as_bytes(std::span(changed)), path);
  }

  IoResult<std::uint64_t> FreeBytes(const Path& path) override {
    struct statvfs info{};
    if (::statvfs(path.c_str(), &info) != 0) {
      return Failed("look at the disk of", path, errno);
    }
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }

  void ForgetCached(const Path& path) override {
#if defined(POSIX_FADV_DONTNEED)
    if (const Descriptor file = Open(path, O_RDONLY); file.open()) {
      (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
    }
#else
    (void)path;  // macOS has no such call
#endif
  }
};

}  // namespace

std::unique_ptr<FileSystem> MakeOsFileSystem() { return std::make_unique<PosixFileSystem>(); }
