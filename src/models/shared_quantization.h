#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace models {

// How one matrix of an MLX checkpoint is quantised.
struct QuantizationRecord {
  int bits = 0;
  int group_size = 0;
  bool mxfp4 = false;  // mode mxfp4 instead of affine: 4 bits, groups of 32
};

// The record of module `name` ("model.layers.0.mlp.up_proj") in config["quantization"] (or, in some
// files, "quantization_config"): the module's own entry, written with or without "model." in front,
// else the global one. Errors (kBadModel): no record, `false` for a matrix that is stored
// quantised, a mode other than affine and mxfp4, bits or group size that do not exist.
[[nodiscard]] Result<QuantizationRecord> FindQuantization(const Json& config,
                                                          std::string_view name);

// Refuses (kBadModel) checkpoints of other quantisation methods than mxfp4 (gpt-oss) and fp8 in
// E4M3 with blocks of 128 x 128: gptq, awq, bitsandbytes, ...
[[nodiscard]] Result<void> CheckQuantizationMethod(const Json& config);

}  // namespace models
