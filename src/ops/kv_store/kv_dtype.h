#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ops {

// How K and V are stored (layout: kv_store.h).
enum class KvDtype : std::uint8_t {
  kF32,  // exact; judge of the tests
  kF16,
  kI8,  // whole numbers -127 .. 127, one float32 scale a head's K and one its V
  kI4,  // whole numbers 0 .. 15, a binary16 scale and minimum for each 32 of head_dim
};

// Values of a head that share scale and minimum in kI4; head_dim is a multiple of it there.
inline constexpr int kI4Group = 32;

[[nodiscard]] std::string_view Name(KvDtype dtype);

// Bytes of one head's K and V in one block, scales included.
[[nodiscard]] std::size_t KvHeadBytes(KvDtype dtype, int head_dim);

}  // namespace ops
