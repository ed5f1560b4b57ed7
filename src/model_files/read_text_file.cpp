#include "model_files/read_text_file.h"

#include <fmt/format.h>

#include <utility>

#include "model_files/mapped_file.h"
#include "model_files/tensor_formats.h"

namespace model_files {

Result<std::optional<std::string>> ReadTextFile(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return std::nullopt;
  }
  const Result<std::shared_ptr<const MappedFile>> file = MappedFile::Open(path);
  if (!file) {
    return Fail(file.error());
  }
  return std::string(AsText((*file)->bytes()));
}

Result<std::optional<Json>> ReadJsonObject(const std::filesystem::path& path) {
  const Result<std::optional<std::string>> text = ReadTextFile(path);
  if (!text) {
    return Fail(text.error());
  }
  if (!*text) {
    return std::nullopt;
  }
  Result<Json> json = ParseJson(**text);
  if (!json) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` is damaged. {}", path.string(), json.error().message));
  }
  if (!json->is_object()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` is damaged: it is no JSON object.", path.string()));
  }
  return std::optional<Json>(std::move(*json));
}

}  // namespace model_files
