#pragma once

#include <cstddef>
#include <cstdint>

namespace ops {

// Asks the system to back the range with large pages where it can: one layer's part of a block is a
// few small pages, and decoding at a depth of 4096 is 1.3 times as fast without a translation miss
// for each (SmolLM2, AVX-512).
void AdviseLargePages(std::byte* data, std::uint64_t size);

}  // namespace ops
