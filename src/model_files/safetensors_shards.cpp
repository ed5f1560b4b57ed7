// Which safetensors files of a directory make up its model, and opening them.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "model_files/gguf_file.h"
#include "model_files/read_text_file.h"
#include "model_files/safetensors_file.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEnding = ".safetensors";
constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kSingle = "model.safetensors";

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The files that the index names, or nothing without an index.
Result<std::optional<std::set<std::string>>> ReadIndex(const fs::path& directory) {
  const fs::path path = directory / kIndex;
  const Result<std::optional<std::string>> text = ReadTextFile(path);
  if (!text) {
    return Fail(text.error());
  }
  if (!*text) {
    return std::nullopt;
  }
  // Not base/json.h: its objects search linearly, and an index may have tens of thousands of names.
  const auto index = nlohmann::json::parse(**text, nullptr, /*allow_exceptions=*/false);
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` is damaged: it has no `weight_map`.", path.string()));
  }
  std::set<std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("`{}` is damaged: the file of tensor `{}` is no text.", path.string(),
                              tensor));
    }
    const std::string name = file.get<std::string>();
    // A path could lead out of the model's directory.
    if (name.empty() || name.find('/') != std::string::npos || name == "..") {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("`{}` names the file `{}`, which is no plain file name.",
                              path.string(), name));
    }
    files.insert(name);
  }
  return std::optional(std::move(files));
}

std::set<std::string> ListSafetensors(const fs::path& directory, std::string_view prefix) {
  std::set<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(kEnding) && !name.starts_with("adapter") &&
        !name.starts_with(".")) {
      names.insert(name);
    }
  }
  return names;
}

// Without an index, shard numbers tell when one is missing.
void AddMissingShards(std::set<std::string>& names) {
  const std::set<std::string> present = names;
  for (const std::string& name : present) {
    std::optional<SplitName> split = ParseSplitName(name, kEnding);
    constexpr int kPlausibleShards = 1000;
    if (!split || split->parts > kPlausibleShards) {
      continue;
    }
    for (split->part = 1; split->part <= split->parts; ++split->part) {
      names.insert(MakeSplitName(*split, kEnding));
    }
  }
}

bool HasPyTorchWeights(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string ending = entry->path().extension().string();
    if (ending == ".bin" || ending == ".pt" || ending == ".pth") {
      return true;
    }
  }
  return false;
}

Result<std::set<std::string>> ChooseFiles(const fs::path& directory) {
  Result<std::optional<std::set<std::string>>> indexed = ReadIndex(directory);
  if (!indexed) {
    return Fail(indexed.error());
  }
  // Converters leave the index of the original's shards beside their single file.
  const bool single = Exists(directory / kSingle);
  if (*indexed && (!single || (*indexed)->contains(std::string(kSingle)))) {
    return std::move(**indexed);
  }
  if (single) {
    return std::set<std::string>{std::string(kSingle)};
  }
  std::set<std::string> names = ListSafetensors(directory, "model");
  if (names.empty()) {
    names = ListSafetensors(directory, "");
  }
  AddMissingShards(names);
  if (names.empty() && HasPyTorchWeights(directory)) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` holds PyTorch weights only; convert them to safetensors.",
                            directory.string()));
  }
  if (names.empty()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` holds no .safetensors file.", directory.string()));
  }
  return names;
}

Result<void> AddShard(const fs::path& path, WeightFiles& all) {
  const std::string name = path.filename().string();
  if (!Exists(path)) {
    return Fail(ErrorCode::kBadModel, fmt::format("The weight file `{}` is missing in `{}`.", name,
                                                  path.parent_path().string()));
  }
  const Result<std::shared_ptr<const MappedFile>> mapped = MappedFile::Open(path);
  if (!mapped) {
    return Fail(mapped.error());
  }
  Result<SafetensorsFile> file = ParseSafetensors((*mapped)->bytes(), name);
  if (!file) {
    return Fail(file.error());
  }
  for (TensorView& tensor : file->tensors) {
    tensor.file = *mapped;
    const auto [place, added] = all.tensors.emplace(tensor.name, tensor);
    if (!added) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("Tensor `{}` is in both {} and {}.", tensor.name,
                              place->second.file->path().filename().string(), name));
    }
  }
  if (all.written_by.empty()) {
    all.written_by = file->written_by;
  }
  return {};
}

}  // namespace

Result<WeightFiles> OpenSafetensors(const fs::path& directory) {
  const Result<std::set<std::string>> names = ChooseFiles(directory);
  if (!names) {
    return Fail(names.error());
  }
  WeightFiles all;
  for (const std::string& name : *names) {
    if (Result<void> added = AddShard(directory / name, all); !added) {
      return Fail(added.error());
    }
  }
  return all;
}

}  // namespace model_files
