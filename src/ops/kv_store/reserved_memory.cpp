#include "ops/kv_store/reserved_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "ops/kv_store/large_pages.h"

namespace ops {
namespace {

// Not counted against the system's commit limit until touched.
constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

}  // namespace

ReservedMemory::ReservedMemory(std::uint64_t bytes) {
  for (; bytes > 0; bytes /= 2) {
    void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
    if (p != MAP_FAILED) {
      data_ = static_cast<std::byte*>(p);
      size_ = bytes;
      AdviseLargePages(data_, size_);
      return;
    }
  }
}

ReservedMemory::~ReservedMemory() {
  if (data_ != nullptr) {
    munmap(data_, size_);
  }
}

ReservedMemory::ReservedMemory(ReservedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

void ReservedMemory::Release(std::uint64_t offset, std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t begin = (offset + page - 1) / page * page;
  const std::uint64_t end = (offset + bytes) / page * page;
  if (begin < end) {
    madvise(data_ + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace ops
