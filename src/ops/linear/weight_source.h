#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace ops {

// Stored form of a matrix. GGUF blocks: as in ggml-common.h.
enum class WeightFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMxfp4,      // OCP Microscaling E2M1 with a power of 2 per 32 inputs
  kMlxAffine,  // `bits` 2, 3, 4, 5, 6 or 8; value = scale * code + bias, per row and `group_size`
               // inputs
  kMlxMxfp4,   // the same values as kMxfp4 in two tensors, as MLX and gpt-oss's checkpoints have
               // them
  kF8E4M3,     // OCP 8-bit float times a float32 scale per 128 x 128 weights (DeepSeek-V3, MiniMax)
};

enum class ScaleFormat : std::uint8_t { kF32, kF16, kBF16 };

// A matrix [n_out, n_in] as it lies in its file; the spans must stay valid while Linear is being
// made, no longer.
struct WeightSource {
  std::string name;  // for error messages
  WeightFormat format = WeightFormat::kF32;
  int n_out = 0;
  int n_in = 0;
  // Row-major; kMlxAffine and kMlxMxfp4: codes packed little end first, no gaps.
  std::span<const std::byte> data = {};
  // kMlxAffine: [n_out, n_in / group_size]; kMlxMxfp4: [n_out, n_in / 32] exponents, E8M0; kF8E4M3:
  // [stored rows / 128, n_in / 128] float32, both rounded up.
  std::span<const std::byte> scales = {};
  std::span<const std::byte> biases = {};  // kMlxAffine: same
  ScaleFormat scale_format = ScaleFormat::kF16;
  int bits = 0;        // kMlxAffine
  int group_size = 0;  // kMlxAffine: 32, 64 or 128
  // Output row r is read from stored row source_row(r); empty: r itself.
  std::function<int(int)> source_row = {};
};

}  // namespace ops
