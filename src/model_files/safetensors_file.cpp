#include "model_files/safetensors_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "model_files/tensor_formats.h"

namespace model_files {
namespace {

// nlohmann's map-based object: the order-keeping one of base/json.h searches linearly, and a
// header may name tens of thousands of tensors.
using HeaderJson = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

struct Range {
  std::uint64_t begin = 0;  // in the file
  std::uint64_t end = 0;
};

tl::unexpected<Error> Damaged(std::string_view file_name, std::string_view what) {
  return Fail(ErrorCode::kBadModel, fmt::format("{} is damaged: {}.", file_name, what));
}

std::optional<std::uint64_t> AsCount(const HeaderJson& value) {
  return value.is_number_unsigned() ? std::optional(value.get<std::uint64_t>()) : std::nullopt;
}

std::optional<std::vector<std::int64_t>> ReadShape(const HeaderJson& entry) {
  const auto found = entry.find("shape");
  if (found == entry.end() || !found->is_array()) {
    return std::nullopt;
  }
  std::vector<std::int64_t> shape;
  for (const HeaderJson& extent : *found) {
    const std::optional<std::uint64_t> count = AsCount(extent);
    if (!count || *count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return std::nullopt;
    }
    shape.push_back(static_cast<std::int64_t>(*count));
  }
  return shape;
}

std::optional<Range> ReadOffsets(const HeaderJson& entry, std::uint64_t data_start) {
  const auto found = entry.find("data_offsets");
  if (found == entry.end() || !found->is_array() || found->size() != 2) {
    return std::nullopt;
  }
  const std::optional<std::uint64_t> begin = AsCount((*found)[0]);
  const std::optional<std::uint64_t> end = AsCount((*found)[1]);
  Range range;
  if (!begin || !end || *begin > *end || __builtin_add_overflow(data_start, *begin, &range.begin) ||
      __builtin_add_overflow(data_start, *end, &range.end)) {
    return std::nullopt;
  }
  return range;
}

Result<TensorView> ReadTensor(const std::string& name, const HeaderJson& entry,
                              std::span<const std::byte> bytes, std::uint64_t data_start,
                              std::string_view file_name) {
  if (!entry.is_object()) {
    return Damaged(file_name, fmt::format("the header entry of tensor `{}` is no object", name));
  }
  const auto dtype = entry.find("dtype");
  if (dtype == entry.end() || !dtype->is_string()) {
    return Damaged(file_name, fmt::format("tensor `{}` has no dtype", name));
  }
  std::optional<std::vector<std::int64_t>> shape = ReadShape(entry);
  if (!shape || !CountValues(*shape)) {
    return Damaged(file_name, fmt::format("tensor `{}` has no valid shape", name));
  }
  const std::optional<Range> range = ReadOffsets(entry, data_start);
  if (!range) {
    return Damaged(file_name, fmt::format("tensor `{}` has no valid data_offsets", name));
  }
  const std::string type_name = dtype->get<std::string>();
  const StoredType* type = FindSafetensorsType(type_name);
  if (type != nullptr && StoredBytes(*type, *shape) != range->end - range->begin) {
    return Damaged(file_name,
                   fmt::format("tensor `{}` of {} has {} bytes, which does not fit its shape", name,
                               type_name, range->end - range->begin));
  }
  if (range->end > bytes.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is truncated: the header places tensor {} at bytes {}-{}, the file "
                            "has {} bytes.",
                            file_name, name, range->begin, range->end, bytes.size()));
  }
  return TensorView{.name = name,
                    .stored_name = name,
                    .format = type == nullptr ? TensorFormat::kOther : type->format,
                    .format_name = type_name,
                    .shape = std::move(*shape),
                    .data = bytes.subspan(range->begin, range->end - range->begin),
                    .file = nullptr};
}

Result<void> CheckNoOverlap(const std::vector<TensorView>& tensors, std::string_view file_name) {
  std::vector<const TensorView*> by_place;
  for (const TensorView& tensor : tensors) {
    if (!tensor.data.empty()) {
      by_place.push_back(&tensor);
    }
  }
  std::ranges::sort(by_place, {}, [](const TensorView* tensor) { return tensor->data.data(); });
  for (std::size_t i = 1; i < by_place.size(); ++i) {
    const TensorView& before = *by_place[i - 1];
    if (before.data.data() + before.data.size() > by_place[i]->data.data()) {
      return Damaged(file_name,
                     fmt::format("tensors `{}` and `{}` overlap", before.name, by_place[i]->name));
    }
  }
  return {};
}

Result<std::string_view> FindHeader(std::span<const std::byte> bytes, std::string_view file_name) {
  if (std::optional<std::string> placeholder = DescribePlaceholder(bytes, file_name)) {
    return Fail(ErrorCode::kBadModel, *placeholder);
  }
  if (bytes.size() < kLengthBytes) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is truncated: it has {} bytes.", file_name, bytes.size()));
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeaderBytes) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} is not a safetensors file: its header would take {} bytes, the limit "
                    "is {}.",
                    file_name, length, kMaxHeaderBytes));
  }
  if (length > bytes.size() - kLengthBytes) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is truncated: its header takes {} bytes, the file has {} bytes.",
                            file_name, length, bytes.size()));
  }
  return AsText(bytes.subspan(kLengthBytes, length));
}

}  // namespace

Result<SafetensorsFile> ParseSafetensors(std::span<const std::byte> bytes,
                                         std::string_view file_name) {
  const Result<std::string_view> text = FindHeader(bytes, file_name);
  if (!text) {
    return Fail(text.error());
  }
  const HeaderJson header = HeaderJson::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) {
    return Damaged(file_name, "its header is no JSON object");
  }
  SafetensorsFile file;
  file.tensors.reserve(header.size());
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      const auto format = entry.is_object() ? entry.find("format") : entry.end();
      file.written_by =
          format != entry.end() && format->is_string() ? format->get<std::string>() : std::string();
      continue;
    }
    Result<TensorView> tensor =
        ReadTensor(name, entry, bytes, kLengthBytes + text->size(), file_name);
    if (!tensor) {
      return Fail(tensor.error());
    }
    file.tensors.push_back(std::move(*tensor));
  }
  if (Result<void> separate = CheckNoOverlap(file.tensors, file_name); !separate) {
    return Fail(separate.error());
  }
  return file;
}

}  // namespace model_files
