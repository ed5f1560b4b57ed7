#pragma once

#include <filesystem>

#include "base/result.h"
#include "model_files/model_source.h"

namespace model_files {

// How much OpenModel reads. kHeaders leaves out vocabularies and tokenizer.json's content (and with
// them the end tokens that only they name): enough to say what a model is, for lists.
enum class OpenDepth { kAll, kHeaders };

[[nodiscard]] Result<ModelSource> OpenModelTo(OpenDepth depth, const std::filesystem::path& path);

// The two kinds. REQUIRES: `directory` is a directory; `path` is a file.
[[nodiscard]] Result<ModelSource> OpenHuggingFaceDir(OpenDepth depth,
                                                     const std::filesystem::path& directory);
[[nodiscard]] Result<ModelSource> OpenGgufModel(OpenDepth depth, const std::filesystem::path& path);

}  // namespace model_files
