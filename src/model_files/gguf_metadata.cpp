#include <cmath>
#include <cstring>
#include <limits>

#include "model_files/gguf_file.h"
#include "model_files/tensor_formats.h"

namespace model_files {
namespace {

template <class T>
T Read(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::optional<std::int64_t> ReadInteger(GgufType type, std::span<const std::byte> bytes) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kBool:
      return Read<std::uint8_t>(bytes);
    case GgufType::kInt8:
      return Read<std::int8_t>(bytes);
    case GgufType::kUint16:
      return Read<std::uint16_t>(bytes);
    case GgufType::kInt16:
      return Read<std::int16_t>(bytes);
    case GgufType::kUint32:
      return Read<std::uint32_t>(bytes);
    case GgufType::kInt32:
      return Read<std::int32_t>(bytes);
    case GgufType::kInt64:
      return Read<std::int64_t>(bytes);
    case GgufType::kUint64: {
      const auto value = Read<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        return std::nullopt;
      }
      return static_cast<std::int64_t>(value);
    }
    default:
      return std::nullopt;
  }
}

std::optional<double> ReadNumber(GgufType type, std::span<const std::byte> bytes) {
  if (type == GgufType::kFloat32) {
    return Read<float>(bytes);
  }
  if (type == GgufType::kFloat64) {
    return Read<double>(bytes);
  }
  const std::optional<std::int64_t> integer =
      type == GgufType::kBool ? std::nullopt : ReadInteger(type, bytes);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

std::size_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

// Calls visit(bytes) for each element of an array of scalars.
template <class Visit>
void ForEachScalar(const GgufValue& array, const Visit& visit) {
  const std::size_t size = ScalarBytes(array.element_type);
  for (std::uint64_t i = 0; size > 0 && i < array.count; ++i) {
    visit(array.bytes.subspan(i * size, size));
  }
}

// Takes the string at the front of `rest`. ParseGguf has checked that it lies inside.
std::string_view TakeText(std::span<const std::byte>& rest) {
  const auto length = static_cast<std::size_t>(Read<std::uint64_t>(rest));
  const std::string_view text = AsText(rest.subspan(sizeof(std::uint64_t), length));
  rest = rest.subspan(sizeof(std::uint64_t) + length);
  return text;
}

}  // namespace

const GgufValue* GgufMetadata::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

std::optional<std::int64_t> GgufMetadata::Integer(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type == GgufType::kBool) {
    return std::nullopt;
  }
  if (value->type != GgufType::kArray) {
    return ReadInteger(value->type, value->bytes);
  }
  const std::vector<std::int64_t> all = Integers(key);
  for (const std::int64_t each : all) {
    if (each != all.front()) {
      return std::nullopt;
    }
  }
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::optional<double> GgufMetadata::Number(std::string_view key) const {
  const GgufValue* value = Find(key);
  const std::optional<double> number =
      value == nullptr ? std::nullopt : ReadNumber(value->type, value->bytes);
  return number && std::isfinite(*number) ? number : std::nullopt;
}

std::optional<bool> GgufMetadata::Bool(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type != GgufType::kBool) {
    return std::nullopt;
  }
  return Read<std::uint8_t>(value->bytes) != 0;
}

std::optional<std::string_view> GgufMetadata::Text(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type != GgufType::kString) {
    return std::nullopt;
  }
  return AsText(value->bytes);
}

std::vector<std::string> GgufMetadata::Texts(std::string_view key) const {
  const GgufValue* value = Find(key);
  std::vector<std::string> texts;
  if (value == nullptr || value->type != GgufType::kArray ||
      value->element_type != GgufType::kString) {
    return texts;
  }
  texts.reserve(value->count);
  std::span<const std::byte> rest = value->bytes;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    texts.emplace_back(TakeText(rest));
  }
  return texts;
}

std::vector<float> GgufMetadata::Floats(std::string_view key) const {
  const GgufValue* value = Find(key);
  std::vector<float> floats;
  if (value == nullptr || value->type != GgufType::kArray) {
    return floats;
  }
  ForEachScalar(*value, [&](std::span<const std::byte> bytes) {
    if (const std::optional<double> number = ReadNumber(value->element_type, bytes)) {
      floats.push_back(static_cast<float>(*number));
    }
  });
  return floats;
}

std::vector<std::int64_t> GgufMetadata::Integers(std::string_view key) const {
  const GgufValue* value = Find(key);
  std::vector<std::int64_t> integers;
  if (value == nullptr || value->type != GgufType::kArray) {
    return integers;
  }
  ForEachScalar(*value, [&](std::span<const std::byte> bytes) {
    if (const std::optional<std::int64_t> integer = ReadInteger(value->element_type, bytes)) {
      integers.push_back(*integer);
    }
  });
  return integers;
}

std::optional<std::string_view> GgufMetadata::TextAt(std::string_view key,
                                                     std::uint64_t index) const {
  const GgufValue* value = Find(key);
  if (value == nullptr || value->type != GgufType::kArray ||
      value->element_type != GgufType::kString || index >= value->count) {
    return std::nullopt;
  }
  std::span<const std::byte> rest = value->bytes;
  std::string_view text = TakeText(rest);
  for (std::uint64_t i = 0; i < index; ++i) {
    text = TakeText(rest);
  }
  return text;
}

std::uint64_t GgufMetadata::Count(std::string_view key) const {
  const GgufValue* value = Find(key);
  return value != nullptr && value->type == GgufType::kArray ? value->count : 0;
}

}  // namespace model_files
