#pragma once

#include <arm_neon.h>

#include <cstdint>
#include <cstring>

namespace ops {

// See Vec16Plain. Four registers of four lanes.
struct Vec16Neon {
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 6;
  static constexpr int kParts = 4;

  float32x4_t part[kParts];

  template <class F>
  static Vec16Neon Each(F f) {
    Vec16Neon r;
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      r.part[i] = f(i);
    }
    return r;
  }

  static Vec16Neon Set(float x) {
    return Each([&](int) { return vdupq_n_f32(x); });
  }
  static Vec16Neon Zero() { return Set(0.0F); }
  static Vec16Neon Load(const float* p) {
    return Each([&](int i) { return vld1q_f32(p + 4 * i); });
  }
  static Vec16Neon Load(const std::uint16_t* p) {
    return Each([&](int i) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
  }
  static Vec16Neon FromBytes(int8x16_t bytes) {
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes));
    const int16x8_t high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))),
             vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
  }
  static Vec16Neon Load(const std::int8_t* p) { return FromBytes(vld1q_s8(p)); }
  static Vec16Neon LowNibbles(const std::uint8_t* p) {
    return FromBytes(vreinterpretq_s8_u8(vandq_u8(vld1q_u8(p), vdupq_n_u8(15))));
  }
  static Vec16Neon HighNibbles(const std::uint8_t* p) {
    return FromBytes(vreinterpretq_s8_u8(vshrq_n_u8(vld1q_u8(p), 4)));
  }
  static Vec16Neon LoadN(const float* p, int n) {
    float lanes[kLanes] = {};
    std::memcpy(lanes, p, static_cast<std::size_t>(Clamp(n)) * sizeof(float));
    return Load(lanes);
  }
  static int Clamp(int n) { return n < 0 ? 0 : (n > kLanes ? kLanes : n); }
  void Store(float* p) const {
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      vst1q_f32(p + 4 * i, part[i]);
    }
  }
  void StoreN(float* p, int n) const {
    float lanes[kLanes];
    Store(lanes);
    std::memcpy(p, lanes, static_cast<std::size_t>(Clamp(n)) * sizeof(float));
  }
  void StoreHalf(std::uint16_t* p) const {
    const Vec16Neon clamped = Max(Set(-65504.0F), Min(Set(65504.0F), *this));
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) {
      vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(clamped.part[i])));
    }
  }
  static int16x8_t ToShorts(float32x4_t low, float32x4_t high) {
    return vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(low)), vqmovn_s32(vcvtnq_s32_f32(high)));
  }
  void StoreInt8(std::int8_t* p) const {
    vst1_s8(p, vqmovn_s16(ToShorts(part[0], part[1])));
    vst1_s8(p + 8, vqmovn_s16(ToShorts(part[2], part[3])));
  }

  static Vec16Neon Add(Vec16Neon a, Vec16Neon b) {
    return Each([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
  }
  static Vec16Neon Sub(Vec16Neon a, Vec16Neon b) {
    return Each([&](int i) { return vsubq_f32(a.part[i], b.part[i]); });
  }
  static Vec16Neon Mul(Vec16Neon a, Vec16Neon b) {
    return Each([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
  }
  static Vec16Neon Div(Vec16Neon a, Vec16Neon b) {
    return Each([&](int i) { return vdivq_f32(a.part[i], b.part[i]); });
  }
  // Not vmaxq and vminq, which treat a NaN otherwise.
  static float32x4_t Max4(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
  static Vec16Neon Max(Vec16Neon a, Vec16Neon b) {
    return Each([&](int i) { return Max4(a.part[i], b.part[i]); });
  }
  static Vec16Neon Min(Vec16Neon a, Vec16Neon b) {
    return Each(
        [&](int i) { return vbslq_f32(vcltq_f32(a.part[i], b.part[i]), a.part[i], b.part[i]); });
  }
  static Vec16Neon Fma(Vec16Neon a, Vec16Neon b, Vec16Neon c) {
    return Each([&](int i) { return vfmaq_f32(c.part[i], a.part[i], b.part[i]); });
  }
  static Vec16Neon ZeroWhereLess(Vec16Neon x, Vec16Neon limit, Vec16Neon value) {
    return Each([&](int i) {
      return vreinterpretq_f32_u32(
          vbicq_u32(vreinterpretq_u32_f32(value.part[i]), vcltq_f32(x.part[i], limit.part[i])));
    });
  }
  static Vec16Neon KeepLanes(Vec16Neon v, int lo, int hi, float fill) {
    static constexpr std::int32_t kFirst[4] = {0, 1, 2, 3};
    return Each([&](int i) {
      const int32x4_t index = vaddq_s32(vld1q_s32(kFirst), vdupq_n_s32(4 * i));
      const uint32x4_t inside =
          vandq_u32(vcgeq_s32(index, vdupq_n_s32(lo)), vcltq_s32(index, vdupq_n_s32(hi)));
      return vbslq_f32(inside, v.part[i], vdupq_n_f32(fill));
    });
  }
  static Vec16Neon ScaleByPowerOf2(Vec16Neon p, Vec16Neon shifted) {
    return Each([&](int i) {
      return vreinterpretq_f32_s32(
          vaddq_s32(vreinterpretq_s32_f32(p.part[i]),
                    vshlq_n_s32(vreinterpretq_s32_f32(shifted.part[i]), 23)));
    });
  }

  [[nodiscard]] float Sum() const {
    const float32x4_t four = vaddq_f32(vaddq_f32(part[0], part[2]), vaddq_f32(part[1], part[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
  }
  [[nodiscard]] float Maximum() const {
    const float32x4_t four = Max4(Max4(part[0], part[1]), Max4(part[2], part[3]));
    float lanes[4];
    vst1q_f32(lanes, four);
    float r = lanes[0];
    for (int i = 1; i < 4; ++i) {
      r = r > lanes[i] ? r : lanes[i];
    }
    return r;
  }
};

}  // namespace ops
