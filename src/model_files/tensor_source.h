#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model_files/mapped_file.h"

namespace model_files {

// How the bytes of a stored tensor are to be read. The quantised ones are GGUF's block formats;
// layouts as in ggml's ggml-common.h. MLX affine weights are three plain tensors (see
// engine/weights.h): U32, and scales and biases in F16, BF16 or F32.
enum class TensorFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kU32,
  kU8,
  kI32,
  kI64,
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
  kMxfp4,
  kF8E4M3,
  kOther,  // named in TensorView::format_name; cannot be read yet
};

// One tensor as it lies in its file. The bytes are mapped, not copied.
struct TensorView {
  std::string name;         // Hugging Face name, also for GGUF files
  std::string stored_name;  // name in the file; for error messages
  TensorFormat format = TensorFormat::kOther;
  std::string format_name;                 // as the file calls it, "BF16", "Q4_K"
  std::vector<std::int64_t> shape;         // row-major, outermost first: [n_out, n_in]
  std::span<const std::byte> data;         // lies inside `file`
  std::shared_ptr<const MappedFile> file;  // shared: every tensor of a file keeps its mapping alive
};

}  // namespace model_files
