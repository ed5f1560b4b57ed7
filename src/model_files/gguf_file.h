#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/tensor_source.h"

namespace model_files {

// Value types of GGUF metadata, numbered as in the file (docs/gguf.md of the ggml repository).
enum class GgufType : std::uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// One metadata value, still in its file's bytes; checked to lie inside the file, with every string
// and nested array in it.
struct GgufValue {
  GgufType type = GgufType::kUint8;
  std::span<const std::byte> bytes;          // the number, the string's content, or all elements
  GgufType element_type = GgufType::kUint8;  // arrays only
  std::uint64_t count = 0;                   // arrays only
};

// Metadata by key. A getter returns nothing when the key is absent or of another kind; numbers are
// converted between widths and signs where the value fits. Refers to the mapped file.
class GgufMetadata {
 public:
  using Map = std::map<std::string_view, GgufValue, std::less<>>;

  GgufMetadata() = default;
  explicit GgufMetadata(Map values) : values_(std::move(values)) {}

  [[nodiscard]] bool Has(std::string_view key) const { return values_.contains(key); }
  // An array whose elements all have one value (per-layer head counts) counts as that value.
  [[nodiscard]] std::optional<std::int64_t> Integer(std::string_view key) const;
  [[nodiscard]] std::optional<double> Number(std::string_view key) const;
  [[nodiscard]] std::optional<bool> Bool(std::string_view key) const;
  [[nodiscard]] std::optional<std::string_view> Text(std::string_view key) const;
  // Arrays; empty when absent or of another element type.
  [[nodiscard]] std::vector<std::string> Texts(std::string_view key) const;
  [[nodiscard]] std::vector<float> Floats(std::string_view key) const;
  [[nodiscard]] std::vector<std::int64_t> Integers(std::string_view key) const;  // booleans as 0, 1
  // The string at `index` of an array of strings, without decoding the others' content.
  [[nodiscard]] std::optional<std::string_view> TextAt(std::string_view key,
                                                       std::uint64_t index) const;
  // Elements of an array; 0 when absent or no array.
  [[nodiscard]] std::uint64_t Count(std::string_view key) const;
  [[nodiscard]] const Map& values() const { return values_; }

 private:
  [[nodiscard]] const GgufValue* Find(std::string_view key) const;

  Map values_;
};

// A parsed GGUF file: metadata, and the tensors in file order under their stored names. Shapes are
// row-major (the file's order reversed).
struct GgufFile {
  std::uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<TensorView> tensors;
  // Keeps what the metadata refers to. With several parts: of the first one.
  std::shared_ptr<const MappedFile> file;
};

// Parses `bytes`, GGUF version 2 or 3. The result refers to `bytes`; TensorView::file is left
// empty. Errors (kBadModel) name the file: wrong magic or version, a count or length beyond the
// file, an unknown type, a row that is no whole number of blocks, a tensor outside the file ("...
// is truncated").
[[nodiscard]] Result<GgufFile> ParseGguf(std::span<const std::byte> bytes,
                                         std::string_view file_name);

// Maps and parses `path`. A file that is one part of a split model (name-00002-of-00003.gguf) is
// opened with all its parts, metadata from the first. Errors as above, kIo, and a missing part.
[[nodiscard]] Result<GgufFile> OpenGguf(const std::filesystem::path& path);

// "name-00002-of-00003.gguf" -> {"name", 2, 3}; nothing for other names.
struct SplitName {
  std::string stem;
  int part = 0;
  int parts = 0;
};
[[nodiscard]] std::optional<SplitName> ParseSplitName(std::string_view file_name,
                                                      std::string_view ending);

// The reverse.
[[nodiscard]] std::string MakeSplitName(const SplitName& name, std::string_view ending);

}  // namespace model_files
