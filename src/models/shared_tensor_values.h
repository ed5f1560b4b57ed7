#pragma once

#include <vector>

#include "base/result.h"
#include "model_files/tensor_source.h"

namespace models {

// The values of a small F32, F16 or BF16 tensor (norm weights, biases) as float32. Other formats,
// and a span that does not fit the shape, are kBadModel.
[[nodiscard]] Result<std::vector<float>> ReadFloats(const model_files::TensorView& tensor);

}  // namespace models
