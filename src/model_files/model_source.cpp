#include "model_files/model_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "model_files/gguf_file.h"
#include "model_files/opening.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

// The .gguf files of a directory that are models of their own: no projectors, and of split ones the
// first part only. In name order.
std::vector<std::string> ListGguf(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    const std::optional<SplitName> split = ParseSplitName(name, ".gguf");
    if (entry->path().extension() == ".gguf" && name.find("mmproj") == std::string::npos &&
        (!split || split->part == 1) && !entry->is_directory(ignored)) {
      names.push_back(name);
    }
  }
  std::ranges::sort(names);
  return names;
}

bool HasSafetensors(const fs::path& directory) {
  std::error_code error;
  for (fs::directory_iterator entry(directory, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == ".safetensors") {
      return true;
    }
  }
  return false;
}

Result<ModelSource> OpenDirectory(OpenDepth depth, const fs::path& directory) {
  std::error_code ignored;
  std::error_code error;
  const fs::directory_iterator readable(directory, error);
  if (error) {
    return Fail(ErrorCode::kIo,
                fmt::format("`{}` cannot be read: {}.", directory.string(), error.message()));
  }
  const std::vector<std::string> gguf = ListGguf(directory);
  // GGUF repositories often carry the original's config.json.
  const bool has_config = fs::exists(directory / "config.json", ignored);
  if (gguf.empty() || (has_config && HasSafetensors(directory))) {
    if (!has_config && fs::exists(directory / "adapter_config.json", ignored)) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("`{}` holds a LoRA adapter and no model.", directory.string()));
    }
    if (!has_config) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("`{}` holds no model: it has neither a config.json nor a .gguf file.",
                              directory.string()));
    }
    return OpenHuggingFaceDir(depth, directory);
  }
  if (gguf.size() > 1) {
    return Fail(ErrorCode::kBadModel, fmt::format("`{}` holds several models; name one of {}.",
                                                  directory.string(), fmt::join(gguf, ", ")));
  }
  return OpenGgufModel(depth, directory / gguf.front());
}

}  // namespace

Result<ModelSource> OpenModelTo(OpenDepth depth, const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return Fail(ErrorCode::kBadModel, fmt::format("There is no model at `{}`.", path.string()));
  }
  if (fs::is_directory(status)) {
    return OpenDirectory(depth, path);
  }
  if (path.extension() == ".safetensors") {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` is one file of a model; name the directory that holds it.",
                            path.string()));
  }
  return OpenGgufModel(depth, path);
}

Result<ModelSource> OpenModel(const fs::path& path) { return OpenModelTo(OpenDepth::kAll, path); }

}  // namespace model_files
