#pragma once

#include <string_view>

#include "model_files/model_source.h"

namespace models {

// Says once that the tensors whose names begin with `prefix`, which are for `purpose`, are not
// used, where there are any.
void LogUnusedTensors(const model_files::ModelSource& source, std::string_view prefix,
                      std::string_view purpose);

}  // namespace models
