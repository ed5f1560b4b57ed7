#pragma once

#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "ops/rope/rope.h"

namespace models {

struct RopeOptions {
  int head_dim = 0;
  double default_theta = 10000.0;
  double default_partial = 1.0;  // of a head that is turned ("partial_rotary_factor")
  // "rope_parameters" of newer configs may have one object a layer type: the one to read.
  std::string_view layer_type = "full_attention";
  // Where older configs keep theta, and whether "rope_scaling" applies (Gemma's local layers: no).
  std::string_view theta_key = "rope_theta";
  bool scaled = true;
};

// The rotary embedding a config describes: "rope_parameters", or "rope_theta" and "rope_scaling",
// with LongRoPE's lists, and GGUF's "rope_freq_factors" (a list that divides the frequencies).
// Errors (kBadModel) name the field.
[[nodiscard]] Result<ops::RopeSpec> ReadRope(const Json& config, const RopeOptions& options);

}  // namespace models
