#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model_files/library_places.h"

namespace model_files {

// The models of an Ollama folder: each manifest names the blob that is the GGUF file. Names as
// Ollama's own: "qwen3:0.6b", "someone/model:tag", "host/someone/model:tag".
[[nodiscard]] std::vector<Entry> ListOllama(const Place& place);

// The first word of a small text file, or nothing.
[[nodiscard]] std::optional<std::string> ReadFirstWord(const std::filesystem::path& path);

}  // namespace model_files
