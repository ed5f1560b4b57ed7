#include "model_files/gguf_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <set>
#include <utility>

#include "model_files/tensor_formats.h"

namespace model_files {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

constexpr std::uint32_t kMaxDims = 4;  // GGML_MAX_DIMS
constexpr int kMaxArrayDepth = 4;      // nested arrays exist in the format, not in real files
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMinEntryBytes = 13;   // key length, type, one byte of value
constexpr std::uint64_t kMinTensorBytes = 24;  // name length, n_dims, type, offset

// Fixed size of a scalar type; 0 for strings and arrays; nothing for numbers that are no type.
std::optional<std::uint64_t> ScalarSize(std::uint32_t type) {
  constexpr std::uint64_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kSizes) ? std::optional(kSizes[type]) : std::nullopt;
}

// Reads front to back and remembers the first failure; reads after that give zeros.
class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, std::string_view file_name)
      : bytes_(bytes), file_name_(file_name) {}

  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t remaining() const { return bytes_.size() - position_; }
  [[nodiscard]] bool failed() const { return failure_.has_value(); }
  [[nodiscard]] tl::unexpected<Error> failure() const {
    return Fail(ErrorCode::kBadModel, *failure_);
  }

  void FailWith(std::string message) {
    if (!failure_) {
      failure_ = std::move(message);
    }
  }

  std::span<const std::byte> Bytes(std::uint64_t length, std::string_view what) {
    if (failed() || length > remaining()) {
      FailWith(
          fmt::format("{} is truncated or damaged: {} at byte {} takes {} bytes, the file has {}.",
                      file_name_, what, position_, length, bytes_.size()));
      return {};
    }
    const auto taken = bytes_.subspan(position_, length);
    position_ += length;
    return taken;
  }

  template <class T>
  T Number(std::string_view what) {
    const auto taken = Bytes(sizeof(T), what);
    T value{};
    if (!taken.empty()) {
      std::memcpy(&value, taken.data(), sizeof(T));
    }
    return value;
  }

  std::string_view Text(std::string_view what) {
    const auto length = Number<std::uint64_t>(what);
    return AsText(Bytes(length, what));
  }

  // A count of things of at least `min_bytes` each: refused before anything is reserved for it.
  std::uint64_t CountOf(std::uint64_t min_bytes, std::string_view what) {
    const auto count = Number<std::uint64_t>(what);
    if (!failed() && count > remaining() / min_bytes) {
      FailWith(
          fmt::format("{} is truncated or damaged: it announces {} {}, but only {} bytes follow.",
                      file_name_, count, what, remaining()));
    }
    return failed() ? 0 : count;
  }

  [[nodiscard]] std::string_view file_name() const { return file_name_; }

 private:
  std::span<const std::byte> bytes_;
  std::string_view file_name_;
  std::uint64_t position_ = 0;
  std::optional<std::string> failure_;
};

// Reads an array's type and count; its elements follow.
GgufValue ReadArray(Cursor& cursor, std::string_view key, int depth) {
  if (depth > kMaxArrayDepth) {
    cursor.FailWith(fmt::format("{} is damaged: the arrays of `{}` are nested more than {} deep.",
                                cursor.file_name(), key, kMaxArrayDepth));
    return {};
  }
  const auto type = cursor.Number<std::uint32_t>("an array's type");
  const std::optional<std::uint64_t> size = ScalarSize(type);
  if (!size) {
    cursor.FailWith(fmt::format("{} is damaged: `{}` is an array of type {}, which does not exist.",
                                cursor.file_name(), key, type));
    return {};
  }
  const std::uint64_t count =
      cursor.CountOf(*size > 0 ? *size : sizeof(std::uint64_t), "elements of an array");
  return {.type = GgufType::kArray,
          .bytes = {},
          .element_type = static_cast<GgufType>(type),
          .count = count};
}

void SkipElements(Cursor& cursor, std::uint32_t type, std::uint64_t count, std::string_view key,
                  int depth) {
  if (const std::uint64_t size = ScalarSize(type).value_or(0); size > 0) {
    cursor.Bytes(count * size, "an array");  // CountOf has bounded the product
    return;
  }
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    if (static_cast<GgufType>(type) == GgufType::kString) {
      cursor.Text("a string");
      continue;
    }
    const GgufValue inner = ReadArray(cursor, key, depth + 1);
    SkipElements(cursor, static_cast<std::uint32_t>(inner.element_type), inner.count, key,
                 depth + 1);
  }
}

GgufValue ReadValue(Cursor& cursor, std::span<const std::byte> all, std::string_view key) {
  const auto type = cursor.Number<std::uint32_t>("a value's type");
  const std::optional<std::uint64_t> size = ScalarSize(type);
  if (!size) {
    cursor.FailWith(fmt::format("{} is damaged: `{}` has the value type {}, which does not exist.",
                                cursor.file_name(), key, type));
    return {};
  }
  GgufValue value;
  value.type = static_cast<GgufType>(type);
  if (value.type == GgufType::kArray) {
    value = ReadArray(cursor, key, 1);
    const std::uint64_t begin = cursor.position();
    SkipElements(cursor, static_cast<std::uint32_t>(value.element_type), value.count, key, 1);
    value.bytes = all.subspan(begin, cursor.position() - begin);
  } else if (value.type == GgufType::kString) {
    const std::string_view text = cursor.Text("a string");
    value.bytes = std::as_bytes(std::span(text));
  } else {
    value.bytes = cursor.Bytes(*size, "a number");
  }
  return value;
}

GgufMetadata::Map ReadMetadata(Cursor& cursor, std::span<const std::byte> all,
                               std::uint64_t count) {
  GgufMetadata::Map values;
  for (std::uint64_t i = 0; i < count && !cursor.failed(); ++i) {
    const std::string_view key = cursor.Text("a metadata key");
    const GgufValue value = ReadValue(cursor, all, key);
    if (!cursor.failed() && !values.emplace(key, value).second) {
      cursor.FailWith(
          fmt::format("{} is damaged: the metadata has `{}` twice.", cursor.file_name(), key));
    }
  }
  return values;
}

struct TensorInfo {
  TensorView view;
  std::uint64_t offset = 0;  // behind the start of the data
  std::uint64_t size = 0;
};

std::vector<std::int64_t> ReadShape(Cursor& cursor, std::string_view name) {
  const auto n_dims = cursor.Number<std::uint32_t>("a tensor's number of dimensions");
  if (n_dims > kMaxDims) {
    cursor.FailWith(fmt::format("{} is damaged: tensor `{}` has {} dimensions, the limit is {}.",
                                cursor.file_name(), name, n_dims, kMaxDims));
    return {};
  }
  std::vector<std::int64_t> shape(n_dims);
  for (std::int64_t& extent : shape) {
    const auto stored = cursor.Number<std::uint64_t>("a tensor's extent");
    if (stored > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      cursor.FailWith(fmt::format("{} is damaged: tensor `{}` has an extent of {}.",
                                  cursor.file_name(), name, stored));
      return {};
    }
    extent = static_cast<std::int64_t>(stored);
  }
  std::ranges::reverse(shape);  // stored innermost first
  return shape;
}

TensorInfo ReadTensorInfo(Cursor& cursor) {
  TensorInfo info;
  const std::string_view name = cursor.Text("a tensor's name");
  info.view.name = std::string(name);
  info.view.stored_name = info.view.name;
  info.view.shape = ReadShape(cursor, name);
  const auto type_number = cursor.Number<std::uint32_t>("a tensor's type");
  info.offset = cursor.Number<std::uint64_t>("a tensor's offset");
  if (cursor.failed()) {
    return info;
  }
  const StoredType* type = FindGgmlType(type_number);
  if (type == nullptr) {
    cursor.FailWith(fmt::format("{}: tensor `{}` has the ggml type {}, which is not known here.",
                                cursor.file_name(), name, type_number));
    return info;
  }
  info.view.format = type->format;
  info.view.format_name = std::string(type->name);
  const std::optional<std::uint64_t> size = StoredBytes(*type, info.view.shape);
  if (!size) {
    cursor.FailWith(
        fmt::format("{} is damaged: tensor `{}` of type {} has a size that is too large "
                    "or a row that is no multiple of {} values.",
                    cursor.file_name(), name, type->name, type->block_values));
    return info;
  }
  info.size = *size;
  return info;
}

// Gives each tensor its bytes. `data_start` may lie behind the end of a file without tensors.
Result<void> PlaceTensors(std::span<const std::byte> bytes, std::uint64_t data_start,
                          std::uint64_t alignment, std::vector<TensorInfo>& infos,
                          std::string_view file_name) {
  std::set<std::string_view> names;
  for (TensorInfo& info : infos) {
    if (!names.insert(info.view.stored_name).second) {
      return Fail(ErrorCode::kBadModel, fmt::format("{} is damaged: it has tensor `{}` twice.",
                                                    file_name, info.view.stored_name));
    }
    if (info.offset % alignment != 0) {
      return Fail(
          ErrorCode::kBadModel,
          fmt::format("{} is damaged: tensor `{}` lies at offset {}, which is no multiple of "
                      "the alignment {}.",
                      file_name, info.view.stored_name, info.offset, alignment));
    }
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (__builtin_add_overflow(data_start, info.offset, &begin) ||
        __builtin_add_overflow(begin, info.size, &end) || end > bytes.size()) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("{} is truncated: the header places tensor `{}` at offset {} with {} "
                              "bytes, the file has {} bytes.",
                              file_name, info.view.stored_name, begin, info.size, bytes.size()));
    }
    info.view.data = bytes.subspan(begin, info.size);
  }
  return {};
}

Result<std::uint32_t> ReadVersion(Cursor& cursor, std::span<const std::byte> bytes) {
  const std::string_view name = cursor.file_name();
  if (std::optional<std::string> placeholder = DescribePlaceholder(bytes, name)) {
    return Fail(ErrorCode::kBadModel, *placeholder);
  }
  const std::string_view magic = AsText(cursor.Bytes(4, "the magic"));
  if (magic != "GGUF") {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} is not a GGUF file: it does not begin with the letters GGUF.", name));
  }
  const auto version = cursor.Number<std::uint32_t>("the version");
  if (cursor.failed()) {
    return cursor.failure();
  }
  if ((version & 0xFFFFU) == 0 && version != 0) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is a big-endian GGUF file, which is not supported.", name));
  }
  if (version != 2 && version != 3) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} has GGUF version {}; versions 2 and 3 can be read.", name, version));
  }
  return version;
}

Result<std::uint64_t> ReadAlignment(const GgufMetadata& metadata, std::string_view file_name) {
  if (!metadata.Has("general.alignment")) {
    return kDefaultAlignment;
  }
  constexpr std::int64_t kMaxAlignment = 1 << 20;
  const std::int64_t alignment = metadata.Integer("general.alignment").value_or(0);
  if (alignment <= 0 || alignment > kMaxAlignment ||
      !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} is damaged: `general.alignment` must be a power of two up to {}.",
                            file_name, kMaxAlignment));
  }
  return static_cast<std::uint64_t>(alignment);
}

}  // namespace

Result<GgufFile> ParseGguf(std::span<const std::byte> bytes, std::string_view file_name) {
  Cursor cursor(bytes, file_name);
  const Result<std::uint32_t> version = ReadVersion(cursor, bytes);
  if (!version) {
    return Fail(version.error());
  }
  const std::uint64_t n_tensors = cursor.CountOf(kMinTensorBytes, "tensors");
  const std::uint64_t n_entries = cursor.CountOf(kMinEntryBytes, "metadata entries");
  GgufFile file{.version = *version,
                .metadata = GgufMetadata(ReadMetadata(cursor, bytes, n_entries)),
                .tensors = {},
                .file = nullptr};
  std::vector<TensorInfo> infos;
  for (std::uint64_t i = 0; i < n_tensors && !cursor.failed(); ++i) {
    infos.push_back(ReadTensorInfo(cursor));
  }
  if (cursor.failed()) {
    return cursor.failure();
  }
  const Result<std::uint64_t> alignment = ReadAlignment(file.metadata, file_name);
  if (!alignment) {
    return Fail(alignment.error());
  }
  const std::uint64_t data_start = (cursor.position() + *alignment - 1) / *alignment * *alignment;
  if (Result<void> placed = PlaceTensors(bytes, data_start, *alignment, infos, file_name);
      !placed) {
    return Fail(placed.error());
  }
  file.tensors.reserve(infos.size());
  for (TensorInfo& info : infos) {
    file.tensors.push_back(std::move(info.view));
  }
  return file;
}

}  // namespace model_files
