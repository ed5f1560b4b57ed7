#pragma once

#include "base/json.h"
#include "base/result.h"
#include "model_files/gguf_families.h"
#include "model_files/gguf_file.h"

namespace model_files {

// The config.json that a GGUF file's metadata and tensor shapes amount to. With `family` null (an
// architecture without a row): model_type and the fields that the file happens to have. Errors
// (kBadModel) name the metadata key that is missing or wrong.
[[nodiscard]] Result<Json> TranslateConfig(const GgufFile& file, std::string_view architecture,
                                           const GgufFamily* family, std::string_view file_name);

// Whether what this tensor holds is told by the config above: RoPE factors.
[[nodiscard]] bool IsInConfig(std::string_view stored_name);

}  // namespace model_files
