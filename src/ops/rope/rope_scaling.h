#pragma once

#include <cstdint>
#include <optional>

#include "ops/rope/rope.h"

namespace ops {

enum class RopeScalingKind : std::uint8_t {
  kDefault,
  kLinear,  // positions divided by `factor` (Chen et al. 2023)
  kLlama3,  // Llama 3.1: long wavelengths divided, short ones kept, a ramp between
  kYarn,    // Peng et al. 2023
};

// The numbers of a config's rope_scaling (rope_parameters), with the defaults of transformers'
// modeling_rope_utils where it has them.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kDefault;
  int rotary_dim = 0;  // head_dim * partial_rotary_factor; even
  double theta = 10000.0;
  double factor = 1.0;  // all but kDefault
  // kLlama3, kYarn: the context the model was first trained for.
  double original_max_position = 0.0;
  // kLlama3.
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  // kYarn.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  bool truncate = true;  // round the ramp's ends to whole dimensions
  // Else from mscale and mscale_all_dim (both set and not 0), else from factor.
  std::optional<double> attention_factor{};
  std::optional<double> mscale{};
  std::optional<double> mscale_all_dim{};
};

// REQUIRES: rotary_dim even and > 0, theta and factor > 0; original_max_position > 0 for kLlama3
// and kYarn; low_freq_factor != high_freq_factor.
[[nodiscard]] RopeSpec MakeRopeSpec(const RopeScaling& scaling);

}  // namespace ops
