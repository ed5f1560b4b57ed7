#include "models/shared_tensor_values.h"

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace models {
namespace {

using model_files::TensorFormat;

template <class T>
T ReadAt(std::span<const std::byte> data, std::size_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

// IEEE 754 binary16 to binary32, every value exactly.
float FromHalf(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000U) << 16U;
  const std::uint32_t exponent = (half >> 10U) & 31U;
  const std::uint32_t mantissa = half & 1023U;
  if (exponent == 0) {
    const float subnormal = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -subnormal : subnormal;
  }
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | (wide << 23U) | (mantissa << 13U));
}

std::size_t BytesPerValue(TensorFormat format) {
  switch (format) {
    case TensorFormat::kF32:
      return 4;
    case TensorFormat::kF16:
    case TensorFormat::kBF16:
      return 2;
    default:
      return 0;
  }
}

float ValueAt(const model_files::TensorView& tensor, std::size_t index) {
  switch (tensor.format) {
    case TensorFormat::kF32:
      return ReadAt<float>(tensor.data, index);
    case TensorFormat::kF16:
      return FromHalf(ReadAt<std::uint16_t>(tensor.data, index));
    default:
      return std::bit_cast<float>(std::uint32_t{ReadAt<std::uint16_t>(tensor.data, index)} << 16U);
  }
}

}  // namespace

Result<std::vector<float>> ReadFloats(const model_files::TensorView& tensor) {
  const std::size_t bytes_per_value = BytesPerValue(tensor.format);
  if (bytes_per_value == 0) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("Tensor `{}` is stored as {}, but norms and biases must be F32, F16 or BF16.",
                    tensor.stored_name, tensor.format_name));
  }
  std::size_t count = 1;
  for (const std::int64_t extent : tensor.shape) {
    count *= static_cast<std::size_t>(extent);
  }
  if (tensor.data.size() != count * bytes_per_value) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("Tensor `{}` holds {} bytes, but its shape needs {}.",
                            tensor.stored_name, tensor.data.size(), count * bytes_per_value));
  }
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = ValueAt(tensor, i);
  }
  return values;
}

}  // namespace models
