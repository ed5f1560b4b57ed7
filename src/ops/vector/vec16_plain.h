#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "ops/vector/saturated_half.h"

namespace ops {

// Sixteen floats. The four classes Vec16Plain, Vec16Avx2, Vec16Avx512 and Vec16Neon have the same
// members, and each member does the same IEEE operations lane by lane, so that a kernel written as
// a template over them gives the same bits on every machine. Max and Min return their second
// argument when either is a NaN, as the x86 instructions do.
struct Vec16Plain {
  static constexpr int kLanes = 16;
  // Accumulators a product tile may use without spilling.
  static constexpr int kAccumulators = 4;

  float lane[kLanes];

  template <class F>
  static Vec16Plain Each(F f) {
    Vec16Plain r;
    for (int i = 0; i < kLanes; ++i) {
      r.lane[i] = f(i);
    }
    return r;
  }

  static Vec16Plain Set(float x) {
    return Each([&](int) { return x; });
  }
  static Vec16Plain Zero() { return Set(0.0F); }
  static Vec16Plain Load(const float* p) {
    return Each([&](int i) { return p[i]; });
  }
  static Vec16Plain Load(const std::uint16_t* p) {
    return Each([&](int i) { return HalfToFloat(p[i]); });
  }
  static Vec16Plain Load(const std::int8_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i]); });
  }
  // The lower or upper halves of 16 bytes.
  static Vec16Plain LowNibbles(const std::uint8_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i] & 15U); });
  }
  static Vec16Plain HighNibbles(const std::uint8_t* p) {
    return Each([&](int i) { return static_cast<float>(p[i] >> 4U); });
  }
  // The first n of 16 lanes, zeros in the others.
  static Vec16Plain LoadN(const float* p, int n) {
    return Each([&](int i) { return i < n ? p[i] : 0.0F; });
  }
  void Store(float* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = lane[i];
    }
  }
  void StoreN(float* p, int n) const {
    for (int i = 0; i < kLanes && i < n; ++i) {
      p[i] = lane[i];
    }
  }
  // Rounds to nearest even; what is too large becomes the largest half, not infinity.
  void StoreHalf(std::uint16_t* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = FloatToSaturatedHalf(lane[i]);
    }
  }

  // Rounds to nearest even. REQUIRES: what is rounded lies in -128 .. 127.
  void StoreInt8(std::int8_t* p) const {
    for (int i = 0; i < kLanes; ++i) {
      p[i] = static_cast<std::int8_t>(std::lrint(lane[i]));
    }
  }

  static Vec16Plain Add(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  static Vec16Plain Sub(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  static Vec16Plain Mul(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  static Vec16Plain Div(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  static Vec16Plain Max(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  static Vec16Plain Min(Vec16Plain a, Vec16Plain b) {
    return Each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  // a * b + c, rounded once.
  static Vec16Plain Fma(Vec16Plain a, Vec16Plain b, Vec16Plain c) {
    return Each([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  // x < limit ? 0 : value.
  static Vec16Plain ZeroWhereLess(Vec16Plain x, Vec16Plain limit, Vec16Plain value) {
    return Each([&](int i) { return x.lane[i] < limit.lane[i] ? 0.0F : value.lane[i]; });
  }
  // Lanes [lo, hi) of v, `fill` elsewhere. lo and hi may lie outside [0, 16].
  static Vec16Plain KeepLanes(Vec16Plain v, int lo, int hi, float fill) {
    return Each([&](int i) { return i >= lo && i < hi ? v.lane[i] : fill; });
  }
  // p * 2^n, where n are the low bits of shifted = n + 1.5 * 2^23, by adding to the exponent:
  // results are normal.
  static Vec16Plain ScaleByPowerOf2(Vec16Plain p, Vec16Plain shifted) {
    return Each([&](int i) {
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p.lane[i]) +
                                  (std::bit_cast<std::uint32_t>(shifted.lane[i]) << 23U));
    });
  }

  // Lane i and lane i + 8, then + 4, + 2, + 1.
  [[nodiscard]] float Sum() const {
    Vec16Plain r = *this;
    for (int n = kLanes / 2; n > 0; n /= 2) {
      for (int i = 0; i < n; ++i) {
        r.lane[i] = r.lane[i] + r.lane[i + n];
      }
    }
    return r.lane[0];
  }
  [[nodiscard]] float Maximum() const {
    float r = lane[0];
    for (int i = 1; i < kLanes; ++i) {
      r = r > lane[i] ? r : lane[i];
    }
    return r;
  }
};

}  // namespace ops
