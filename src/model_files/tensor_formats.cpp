#include "model_files/tensor_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>

namespace model_files {
namespace {

using enum TensorFormat;

struct NumberedType {
  std::uint32_t number;
  StoredType type;
};

// Block sizes: ggml-common.h (sizeof of the block structs) and GGML_QUANT_SIZES of the gguf
// package.
constexpr auto kGgmlTypes = std::to_array<NumberedType>({
    {0, {"F32", kF32, 1, 4}},
    {1, {"F16", kF16, 1, 2}},
    {2, {"Q4_0", kQ4_0, 32, 18}},
    {3, {"Q4_1", kQ4_1, 32, 20}},
    {6, {"Q5_0", kQ5_0, 32, 22}},
    {7, {"Q5_1", kQ5_1, 32, 24}},
    {8, {"Q8_0", kQ8_0, 32, 34}},
    {9, {"Q8_1", kOther, 32, 36}},
    {10, {"Q2_K", kQ2_K, 256, 84}},
    {11, {"Q3_K", kQ3_K, 256, 110}},
    {12, {"Q4_K", kQ4_K, 256, 144}},
    {13, {"Q5_K", kQ5_K, 256, 176}},
    {14, {"Q6_K", kQ6_K, 256, 210}},
    {15, {"Q8_K", kOther, 256, 292}},
    {16, {"IQ2_XXS", kOther, 256, 66}},
    {17, {"IQ2_XS", kOther, 256, 74}},
    {18, {"IQ3_XXS", kOther, 256, 98}},
    {19, {"IQ1_S", kOther, 256, 50}},
    {20, {"IQ4_NL", kIQ4_NL, 32, 18}},
    {21, {"IQ3_S", kOther, 256, 110}},
    {22, {"IQ2_S", kOther, 256, 82}},
    {23, {"IQ4_XS", kIQ4_XS, 256, 136}},
    {24, {"I8", kOther, 1, 1}},
    {25, {"I16", kOther, 1, 2}},
    {26, {"I32", kI32, 1, 4}},
    {27, {"I64", kI64, 1, 8}},
    {28, {"F64", kOther, 1, 8}},
    {29, {"IQ1_M", kOther, 256, 56}},
    {30, {"BF16", kBF16, 1, 2}},
    {31, {"Q4_0_4_4", kOther, 32, 18}},
    {32, {"Q4_0_4_8", kOther, 32, 18}},
    {33, {"Q4_0_8_8", kOther, 32, 18}},
    {34, {"TQ1_0", kOther, 256, 54}},
    {35, {"TQ2_0", kOther, 256, 66}},
    {36, {"IQ4_NL_4_4", kOther, 32, 18}},
    {37, {"IQ4_NL_4_8", kOther, 32, 18}},
    {38, {"IQ4_NL_8_8", kOther, 32, 18}},
    {39, {"MXFP4", kMxfp4, 32, 17}},
    {40, {"NVFP4", kOther, 64, 36}},
    {41, {"Q1_0", kOther, 128, 18}},
});

// https://github.com/huggingface/safetensors, Dtype.
constexpr auto kSafetensorsTypes = std::to_array<StoredType>({
    {"F32", kF32, 1, 4},
    {"F16", kF16, 1, 2},
    {"BF16", kBF16, 1, 2},
    {"U32", kU32, 1, 4},
    {"U8", kU8, 1, 1},
    {"I32", kI32, 1, 4},
    {"I64", kI64, 1, 8},
    {"F64", kOther, 1, 8},
    {"U64", kOther, 1, 8},
    {"I16", kOther, 1, 2},
    {"U16", kOther, 1, 2},
    {"I8", kOther, 1, 1},
    {"BOOL", kOther, 1, 1},
    {"C64", kOther, 1, 8},
    {"F8_E4M3", kF8E4M3, 1, 1},
    {"F8_E5M2", kOther, 1, 1},
    {"F8_E8M0", kOther, 1, 1},
});

}  // namespace

const StoredType* FindGgmlType(std::uint32_t number) {
  const auto found = std::ranges::find(kGgmlTypes, number, &NumberedType::number);
  return found == kGgmlTypes.end() ? nullptr : &found->type;
}

const StoredType* FindSafetensorsType(std::string_view name) {
  const auto found = std::ranges::find(kSafetensorsTypes, name, &StoredType::name);
  return found == kSafetensorsTypes.end() ? nullptr : &*found;
}

std::optional<std::uint64_t> CountValues(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0) {
      return std::nullopt;
    }
    // A zero extent must not hide an overflow of the others: strides are computed from them too.
    if (__builtin_mul_overflow(count, std::max<std::int64_t>(extent, 1), &count)) {
      return std::nullopt;
    }
  }
  return std::ranges::find(shape, 0) != shape.end() ? 0 : static_cast<std::uint64_t>(count);
}

std::optional<std::uint64_t> StoredBytes(const StoredType& type,
                                         std::span<const std::int64_t> shape) {
  const std::optional<std::uint64_t> values = CountValues(shape);
  const std::uint64_t row = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
  if (!values || row % type.block_values != 0) {
    return std::nullopt;
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(*values / type.block_values, type.block_bytes, &bytes)) {
    return std::nullopt;
  }
  return bytes;
}

std::string_view PrevailingFormat(std::span<const TensorView* const> tensors) {
  std::map<std::string_view, std::uint64_t> bytes_by_name;
  for (const TensorView* tensor : tensors) {
    bytes_by_name[tensor->format_name] += tensor->data.size();
  }
  const auto most =
      std::ranges::max_element(bytes_by_name, {}, [](const auto& e) { return e.second; });
  return most == bytes_by_name.end() ? std::string_view{} : most->first;
}

std::optional<std::string> DescribePlaceholder(std::span<const std::byte> bytes,
                                               std::string_view file_name) {
  const std::string_view text = AsText(bytes);
  if (text.empty()) {
    return fmt::format("`{}` is empty.", file_name);
  }
  if (text.starts_with("version https://git-lfs")) {
    return fmt::format(
        "`{}` is a Git LFS pointer and not the file itself; fetch it with `git lfs pull`.",
        file_name);
  }
  if (text.starts_with("<!DOCTYPE") || text.starts_with("<!doctype") || text.starts_with("<html")) {
    return fmt::format("`{}` is a web page and not the file itself.", file_name);
  }
  return std::nullopt;
}

}  // namespace model_files
