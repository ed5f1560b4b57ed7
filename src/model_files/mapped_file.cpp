#include "model_files/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace model_files {
namespace {

// Closes a descriptor at the end of its scope; a mapping outlives the descriptor it was made from.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Error> SystemFailure(const std::filesystem::path& path, int error_number) {
  return Fail(ErrorCode::kIo, fmt::format("`{}` cannot be read: {}.", path.string(),
                                          std::generic_category().message(error_number)));
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::filesystem::path& path) {
  // O_NONBLOCK: a FIFO of that name must not make us wait for a writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    return SystemFailure(path, errno);
  }
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) {
    return SystemFailure(path, errno);
  }
  if (S_ISDIR(status.st_mode)) {
    return SystemFailure(path, EISDIR);
  }
  if (!S_ISREG(status.st_mode)) {
    return Fail(ErrorCode::kIo,
                fmt::format("`{}` cannot be read: it is not a regular file.", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  std::span<const std::byte> bytes;
  if (size > 0) {  // mmap refuses length 0
    void* start = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (start == MAP_FAILED) {
      return SystemFailure(path, errno);
    }
    bytes = {static_cast<const std::byte*>(start), size};
  }
  // The constructor is private, so make_shared cannot call it.
  return std::shared_ptr<const MappedFile>(new MappedFile(path, bytes));
}

MappedFile::MappedFile(std::filesystem::path path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) {
    ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }
}

void MappedFile::DropPages(std::span<const std::byte> range) const {
  if (range.empty() || bytes_.empty()) {
    return;
  }
  // Only whole pages inside the range: the neighbours on the edge pages may be unread yet.
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(range.data());
  const auto end = begin + range.size();
  const auto file_end = reinterpret_cast<std::uintptr_t>(bytes_.data()) + bytes_.size();
  const std::uintptr_t first = (begin + page - 1) / page * page;
  // The page behind the file's last byte belongs to the file alone.
  const std::uintptr_t last = end == file_end ? (end + page - 1) / page * page : end / page * page;
  if (first < last) {
    // Advice: when the system does not take it, the pages only stay resident.
    ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  }
}

}  // namespace model_files
