#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model_files/model_source.h"

namespace model_files {

// Why an opened model cannot be served, as one sentence; empty when it can: its model_type is one
// of `known_types`, it generates text, and every matrix is stored in a format that can be read.
[[nodiscard]] std::string WhyNotServable(const ModelSource& source,
                                         const std::vector<std::string_view>& known_types);

}  // namespace model_files
