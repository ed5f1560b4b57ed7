#include "ops/kv_store/large_pages.h"

namespace ops {

// macOS has no such advice for anonymous memory.
void AdviseLargePages(std::byte* /*data*/, std::uint64_t /*size*/) {}

}  // namespace ops
