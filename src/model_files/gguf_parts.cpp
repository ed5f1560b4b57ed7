// Opening GGUF files from disk, with all parts of split ones.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "model_files/gguf_file.h"

namespace model_files {
namespace {

constexpr std::string_view kEnding = ".gguf";
constexpr std::int64_t kMaxParts = 99999;  // five digits in the name

Result<GgufFile> OpenOnePart(const std::filesystem::path& path) {
  Result<std::shared_ptr<const MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped) {
    return Fail(mapped.error());
  }
  Result<GgufFile> file = ParseGguf((*mapped)->bytes(), path.filename().string());
  if (!file) {
    return file;
  }
  for (TensorView& tensor : file->tensors) {
    tensor.file = *mapped;
  }
  file->file = std::move(*mapped);
  return file;
}

Result<void> AddPart(const std::filesystem::path& path, GgufFile& all) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return Fail(ErrorCode::kBadModel, fmt::format("The part {} of the split model is missing.",
                                                  path.filename().string()));
  }
  Result<GgufFile> part = OpenOnePart(path);
  if (!part) {
    return Fail(part.error());
  }
  std::ranges::move(part->tensors, std::back_inserter(all.tensors));
  return {};
}

Result<void> CheckParts(const GgufFile& all, std::string_view first_name) {
  std::set<std::string_view> names;
  for (const TensorView& tensor : all.tensors) {
    if (!names.insert(tensor.stored_name).second) {
      return Fail(ErrorCode::kBadModel, fmt::format("Tensor `{}` is in two parts of {}.",
                                                    tensor.stored_name, first_name));
    }
  }
  const std::optional<std::int64_t> expected = all.metadata.Integer("split.tensors.count");
  if (expected && static_cast<std::uint64_t>(*expected) != all.tensors.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The parts of {} hold {} tensors, but it says {}.", first_name,
                            all.tensors.size(), *expected));
  }
  return {};
}

}  // namespace

std::optional<SplitName> ParseSplitName(std::string_view file_name, std::string_view ending) {
  // stem + "-00002-of-00003" + ending
  constexpr std::size_t kDigits = 5;
  constexpr std::string_view kMiddle = "-of-";
  constexpr std::size_t kTail = 1 + kDigits + kMiddle.size() + kDigits;
  if (!file_name.ends_with(ending) || file_name.size() <= ending.size() + kTail) {
    return std::nullopt;
  }
  file_name.remove_suffix(ending.size());
  const std::string_view tail = file_name.substr(file_name.size() - kTail);
  const std::string_view part = tail.substr(1, kDigits);
  const std::string_view parts = tail.substr(1 + kDigits + kMiddle.size());
  const auto is_digits = [](std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (tail[0] != '-' || tail.substr(1 + kDigits, kMiddle.size()) != kMiddle || !is_digits(part) ||
      !is_digits(parts)) {
    return std::nullopt;
  }
  SplitName name;
  name.stem = std::string(file_name.substr(0, file_name.size() - kTail));
  std::from_chars(part.data(), part.data() + part.size(), name.part);
  std::from_chars(parts.data(), parts.data() + parts.size(), name.parts);
  return name.part >= 1 && name.part <= name.parts ? std::optional(name) : std::nullopt;
}

std::string MakeSplitName(const SplitName& name, std::string_view ending) {
  return fmt::format("{}-{:05}-of-{:05}{}", name.stem, name.part, name.parts, ending);
}

Result<GgufFile> OpenGguf(const std::filesystem::path& path) {
  Result<GgufFile> file = OpenOnePart(path);
  if (!file) {
    return file;
  }
  const std::int64_t parts = file->metadata.Integer("split.count").value_or(1);
  if (parts <= 1) {
    return file;
  }
  std::optional<SplitName> name = ParseSplitName(path.filename().string(), kEnding);
  if (!name || parts > kMaxParts || name->parts != parts) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("{} is one of {} parts, but its name does not end in -0000N-of-{:05}.gguf, "
                    "so the others cannot be found.",
                    path.filename().string(), parts, parts));
  }
  if (name->part != 1) {
    name->part = 1;
    const std::filesystem::path first = path.parent_path() / MakeSplitName(*name, kEnding);
    std::error_code ignored;
    if (!std::filesystem::exists(first, ignored)) {
      return Fail(ErrorCode::kBadModel, fmt::format("The part {} of the split model is missing.",
                                                    first.filename().string()));
    }
    file = OpenOnePart(first);
    if (!file) {
      return file;
    }
  }
  const std::string first_name = MakeSplitName(*name, kEnding);
  for (name->part = 2; name->part <= name->parts; ++name->part) {
    const std::filesystem::path other = path.parent_path() / MakeSplitName(*name, kEnding);
    if (Result<void> added = AddPart(other, *file); !added) {
      return Fail(added.error());
    }
  }
  if (Result<void> checked = CheckParts(*file, first_name); !checked) {
    return Fail(checked.error());
  }
  return file;
}

}  // namespace model_files
