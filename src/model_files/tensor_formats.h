#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/tensor_source.h"

namespace model_files {

// One element type of a file format: `block_values` values take `block_bytes` bytes.
struct StoredType {
  std::string_view name;
  TensorFormat format = TensorFormat::kOther;
  std::uint64_t block_values = 1;
  std::uint64_t block_bytes = 0;
};

// By ggml's type number (ggml.h, enum ggml_type), or nullptr.
[[nodiscard]] const StoredType* FindGgmlType(std::uint32_t number);

// By a safetensors dtype ("BF16", "F8_E4M3"), or nullptr.
[[nodiscard]] const StoredType* FindSafetensorsType(std::string_view name);

// Product of the extents, or nothing when it does not fit 63 bits. An empty shape is a scalar: 1.
[[nodiscard]] std::optional<std::uint64_t> CountValues(std::span<const std::int64_t> shape);

// Bytes that a tensor of this type and shape takes: rows of whole blocks. Nothing on overflow or
// when a row (the last extent) is no whole number of blocks.
[[nodiscard]] std::optional<std::uint64_t> StoredBytes(const StoredType& type,
                                                       std::span<const std::int64_t> shape);

// Name of the type that most bytes of `tensors` have ("" without tensors).
[[nodiscard]] std::string_view PrevailingFormat(std::span<const TensorView* const> tensors);

// A span as text. The text lives as long as the span's memory.
[[nodiscard]] inline std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A sentence when `bytes` are no model file at all but a placeholder for one (a Git LFS pointer, an
// empty file, an HTML page saved in its place); nothing otherwise.
[[nodiscard]] std::optional<std::string> DescribePlaceholder(std::span<const std::byte> bytes,
                                                             std::string_view file_name);

}  // namespace model_files
