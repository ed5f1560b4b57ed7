#pragma once

// The functions that kernels need on Vec16 (see vec16_plain.h), one set of polynomials for every
// instruction set. Coefficients: minimax for the relative error on the reduced range, by Lawson's
// iteration in double precision.

namespace ops {

// 1.5 * 2^23: adding it leaves the nearest whole number (ties to even) in the low bits.
inline constexpr float kRoundingShift = 12582912.0F;
inline constexpr float kLog2E = 1.44269504088896F;

// 2^x for x <= 0, relative error below 2e-7; 0 below -125 (and for -infinity).
template <class V>
inline V Exp2OfNonPositive(V x) {
  const V lowest = V::Set(-125.0F);
  const V clamped = V::Max(lowest, x);
  const V shifted = V::Add(clamped, V::Set(kRoundingShift));
  const V f = V::Sub(clamped, V::Sub(shifted, V::Set(kRoundingShift)));  // [-0.5, 0.5]
  V p = V::Set(0.00132647273F);
  p = V::Fma(p, f, V::Set(0.00967151299F));
  p = V::Fma(p, f, V::Set(0.0555073358F));
  p = V::Fma(p, f, V::Set(0.240222424F));
  p = V::Fma(p, f, V::Set(0.693147004F));
  p = V::Fma(p, f, V::Set(1.0F));
  return V::ZeroWhereLess(x, lowest, V::ScaleByPowerOf2(p, shifted));
}

// e^x, relative error below 2e-7, for x in [-86, 88]; the value at the nearer end outside.
template <class V>
inline V Exp(V x) {
  const V clamped = V::Min(V::Set(88.0F), V::Max(V::Set(-86.0F), x));
  const V shifted = V::Fma(clamped, V::Set(kLog2E), V::Set(kRoundingShift));
  const V n = V::Sub(shifted, V::Set(kRoundingShift));
  // ln 2 in two parts: n times the first is exact.
  V r = V::Fma(n, V::Set(-0.693359375F), clamped);
  r = V::Fma(n, V::Set(2.12194440e-4F), r);
  V p = V::Set(0.00138436537F);
  p = V::Fma(p, r, V::Set(0.0083741555F));
  p = V::Fma(p, r, V::Set(0.0416680016F));
  p = V::Fma(p, r, V::Set(0.166664317F));
  p = V::Fma(p, r, V::Set(0.49999994F));
  p = V::Fma(p, r, V::Set(1.0F));
  p = V::Fma(p, r, V::Set(1.0F));
  return V::ScaleByPowerOf2(p, shifted);
}

// x / (1 + e^-z).
template <class V>
inline V TimesSigmoid(V x, V z) {
  return V::Div(x, V::Add(V::Set(1.0F), Exp(V::Sub(V::Zero(), z))));
}

template <class V>
inline V Silu(V x) {
  return TimesSigmoid(x, x);
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) (Hendrycks & Gimpel 2016); (1 + tanh u) / 2 =
// sigmoid(2 u).
template <class V>
inline V GeluTanh(V x) {
  const V cubic = V::Fma(V::Mul(V::Set(0.044715F), V::Mul(x, x)), x, x);
  return TimesSigmoid(x, V::Mul(V::Set(1.59576912F), cubic));
}

// Sum of squares of n floats in 64 partial sums; the order depends on n only.
template <class V>
inline float SumOfSquares(const float* x, int n) {
  V sums[4] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  int i = 0;
  for (; i + 4 * V::kLanes <= n; i += 4 * V::kLanes) {
    for (int j = 0; j < 4; ++j) {
      const V v = V::Load(x + i + j * V::kLanes);
      sums[j] = V::Fma(v, v, sums[j]);
    }
  }
  for (int j = 0; i < n; ++j, i += V::kLanes) {
    const V v = V::LoadN(x + i, n - i);
    sums[j] = V::Fma(v, v, sums[j]);
  }
  return V::Add(V::Add(sums[0], sums[1]), V::Add(sums[2], sums[3])).Sum();
}

}  // namespace ops
