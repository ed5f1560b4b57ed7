#pragma once

#include <optional>
#include <string_view>

#include "model_files/model_source.h"

namespace models {

// The model_type that a checkpoint of an unknown one may be loaded as: its layers hold tensors of
// just the names (and, for the norms of q and k, sizes) that this family's have. Many fine-tunes
// are a known architecture under a name of their own. Of families with equal tensors (llama,
// mistral, granite, ...) the plainest. Nothing for tensors that no dense family has, nor for GGUF
// files, whose names are only translated for known architectures.
[[nodiscard]] std::optional<std::string_view> FindDisguised(const model_files::ModelSource& source);

}  // namespace models
