#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace model_files {

// Content of a file; nothing when there is no file of that name. Errors: kIo, naming the path.
[[nodiscard]] Result<std::optional<std::string>> ReadTextFile(const std::filesystem::path& path);

// The JSON object in a file; nothing when there is no file of that name. Errors: kIo, and kBadModel
// when it is no JSON object, naming the file.
[[nodiscard]] Result<std::optional<Json>> ReadJsonObject(const std::filesystem::path& path);

}  // namespace model_files
