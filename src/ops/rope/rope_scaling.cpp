#include "ops/rope/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ops {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// With transformers' float32 rounding of exponent and power: models were trained with these
// frequencies.
double PlainFrequency(const RopeScaling& s, int i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(s.rotary_dim);
  return 1.0F / static_cast<float>(std::pow(s.theta, static_cast<double>(exponent)));
}

double Llama3Frequency(const RopeScaling& s, double frequency) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength < s.original_max_position / s.high_freq_factor) {
    return frequency;
  }
  if (wavelength > s.original_max_position / s.low_freq_factor) {
    return frequency / s.factor;
  }
  const double smooth = (s.original_max_position / wavelength - s.low_freq_factor) /
                        (s.high_freq_factor - s.low_freq_factor);
  return (1.0 - smooth) * frequency / s.factor + smooth * frequency;
}

// The dimension that turns `rotations` times over the original context.
double YarnDimension(const RopeScaling& s, double rotations) {
  return s.rotary_dim * std::log(s.original_max_position / (rotations * kTwoPi)) /
         (2.0 * std::log(s.theta));
}

// How far pair i is interpolated: 0 = kept, 1 = divided by the factor.
double YarnRamp(const RopeScaling& s, int i) {
  double low = YarnDimension(s, s.beta_fast);
  double high = YarnDimension(s, s.beta_slow);
  if (s.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, s.rotary_dim - 1.0);
  if (low == high) {
    high += 0.001;
  }
  return std::clamp((i - low) / (high - low), 0.0, 1.0);
}

double YarnMagnitude(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double YarnAttentionFactor(const RopeScaling& s) {
  if (s.attention_factor) {
    return *s.attention_factor;
  }
  const double mscale = s.mscale.value_or(0.0);
  const double mscale_all_dim = s.mscale_all_dim.value_or(0.0);
  if (mscale != 0.0 && mscale_all_dim != 0.0) {
    return YarnMagnitude(s.factor, mscale) / YarnMagnitude(s.factor, mscale_all_dim);
  }
  return YarnMagnitude(s.factor, 1.0);
}

double ScaledFrequency(const RopeScaling& s, int i, double frequency) {
  switch (s.kind) {
    case RopeScalingKind::kDefault:
      return frequency;
    case RopeScalingKind::kLinear:
      return frequency / s.factor;
    case RopeScalingKind::kLlama3:
      return Llama3Frequency(s, frequency);
    case RopeScalingKind::kYarn: {
      const double ramp = YarnRamp(s, i);
      return frequency / s.factor * ramp + frequency * (1.0 - ramp);
    }
  }
  return frequency;
}

}  // namespace

RopeSpec MakeRopeSpec(const RopeScaling& scaling) {
  RopeSpec spec;
  for (int i = 0; i < scaling.rotary_dim / 2; ++i) {
    spec.inv_freq.push_back(
        static_cast<float>(ScaledFrequency(scaling, i, PlainFrequency(scaling, i))));
  }
  if (scaling.kind == RopeScalingKind::kYarn) {
    spec.attention_factor = static_cast<float>(YarnAttentionFactor(scaling));
  }
  return spec;
}

}  // namespace ops
