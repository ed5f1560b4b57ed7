#include <sys/mman.h>

#include "ops/kv_store/large_pages.h"

namespace ops {

void AdviseLargePages(std::byte* data, std::uint64_t size) { madvise(data, size, MADV_HUGEPAGE); }

}  // namespace ops
