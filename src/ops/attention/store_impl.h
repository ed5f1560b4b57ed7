#pragma once

// How K and V are rounded and stored, over one of the Vec16 classes. Included by kernels_impl.h
// only.

#include <cstddef>
#include <cstdint>

#include "ops/attention/kernels.h"
#include "ops/kv_store/block_store.h"
#include "ops/vector/saturated_half.h"

namespace ops {

inline constexpr float kI8Largest = 127.0F;
inline constexpr float kI4Largest = 15.0F;

template <class V>
inline void StoreRow(V v, float* to) {
  v.Store(to);
}
template <class V>
inline void StoreRow(V v, std::uint16_t* to) {
  v.StoreHalf(to);
}

template <class V, class T>
inline void StoreTokens(const TokenStores& s) {
  T* k = reinterpret_cast<T*>(s.block_head);
  T* v = k + static_cast<std::ptrdiff_t>(s.head_dim) * kBlockTokens;
  for (std::ptrdiff_t t = 0; t < s.n_tokens; ++t) {
    const std::ptrdiff_t slot = s.first_slot + t;
    for (std::ptrdiff_t d = 0; d < s.head_dim; d += V::kLanes) {
      T column[V::kLanes];
      StoreRow(V::Load(s.k + t * s.head_dim + d), column);
      for (std::ptrdiff_t i = 0; i < V::kLanes; ++i) {
        k[(d + i) * kBlockTokens + slot] = column[i];
      }
      StoreRow(V::Load(s.v + t * s.v_stride + d), v + slot * s.head_dim + d);
    }
  }
}

// How far one may go without an infinity in binary16, and a NaN becomes that too.
template <class V>
inline V Clamped(const float* x) {
  const V limit = V::Set(kLargestHalf);
  return V::Max(V::Min(V::Load(x), limit), V::Set(-kLargestHalf));
}

// The largest magnitude of one head's values [head_dim].
template <class V>
inline float LargestMagnitude(const float* x, int head_dim) {
  V largest = V::Zero();
  for (int d = 0; d < head_dim; d += V::kLanes) {
    const V v = Clamped<V>(x + d);
    largest = V::Max(largest, V::Max(v, V::Sub(V::Zero(), v)));
  }
  return largest.Maximum();
}

// Sixteen values times `inverse` as whole numbers.
template <class V>
inline void RoundToI8(const float* x, float inverse, std::int8_t* out) {
  // Rounding of the inverse may lead a hair beyond the largest.
  const V scaled = V::Mul(Clamped<V>(x), V::Set(inverse));
  V::Max(V::Min(scaled, V::Set(kI8Largest)), V::Set(-kI8Largest)).StoreInt8(out);
}

template <class V>
inline void StoreTokensI8(const TokenStores& s) {
  const std::ptrdiff_t part = static_cast<std::ptrdiff_t>(s.head_dim) * kBlockTokens;
  auto* const k = reinterpret_cast<std::int8_t*>(s.block_head);
  auto* const scales = reinterpret_cast<float*>(s.block_head + 2 * part);
  const auto inverse = [](float largest) { return largest > 0.0F ? kI8Largest / largest : 0.0F; };
  for (std::ptrdiff_t t = 0; t < s.n_tokens; ++t) {
    const std::ptrdiff_t slot = s.first_slot + t;
    const float* const from_k = s.k + t * s.head_dim;
    const float* const from_v = s.v + t * s.v_stride;
    const float largest_k = LargestMagnitude<V>(from_k, s.head_dim);
    const float largest_v = LargestMagnitude<V>(from_v, s.head_dim);
    scales[slot] = largest_k / kI8Largest;
    scales[kBlockTokens + slot] = largest_v / kI8Largest;
    for (std::ptrdiff_t d = 0; d < s.head_dim; d += V::kLanes) {
      std::int8_t column[V::kLanes];
      RoundToI8<V>(from_k + d, inverse(largest_k), column);
      for (std::ptrdiff_t i = 0; i < V::kLanes; ++i) {
        k[(d + i) * kBlockTokens + slot] = column[i];
      }
      RoundToI8<V>(from_v + d, inverse(largest_v), k + part + slot * s.head_dim + d);
    }
  }
}

struct I4Scale {
  std::uint16_t scale = 0;    // binary16
  std::uint16_t minimum = 0;  // binary16
};

// The whole numbers of one group of 32 values.
template <class V>
inline I4Scale RoundToI4(const float* x, std::int8_t* out) {
  const V a = Clamped<V>(x);
  const V b = Clamped<V>(x + V::kLanes);
  const float most = V::Max(a, b).Maximum();
  const float least = -V::Max(V::Sub(V::Zero(), a), V::Sub(V::Zero(), b)).Maximum();
  const I4Scale made{.scale = FloatToSaturatedHalf((most - least) / kI4Largest),
                     .minimum = FloatToSaturatedHalf(least)};
  const float scale = HalfToFloat(made.scale);
  const V inverse = V::Set(scale > 0.0F ? 1.0F / scale : 0.0F);
  const V minimum = V::Set(HalfToFloat(made.minimum));
  const auto round = [&](V v, std::int8_t* to) {
    const V scaled = V::Mul(V::Sub(v, minimum), inverse);
    V::Max(V::Min(scaled, V::Set(kI4Largest)), V::Zero()).StoreInt8(to);
  };
  round(a, out);
  round(b, out + V::kLanes);
  return made;
}

inline std::uint8_t Packed(std::int8_t low, std::int8_t high) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(low) | static_cast<unsigned>(high) << 4U);
}

// Where the parts of a head lie in a block of kI4.
template <class Byte, class Half>
struct I4Parts {
  I4Parts(Byte* head, int head_dim)
      : k(head),
        v(k + static_cast<std::ptrdiff_t>(head_dim) * kBlockTokens / 2),
        k_scales(
            reinterpret_cast<Half*>(v + static_cast<std::ptrdiff_t>(head_dim) * kBlockTokens / 2)),
        k_minima(k_scales + static_cast<std::ptrdiff_t>(head_dim) / kI4Group * kBlockTokens),
        v_scales(k_minima + static_cast<std::ptrdiff_t>(head_dim) / kI4Group * kBlockTokens),
        v_minima(v_scales + static_cast<std::ptrdiff_t>(head_dim) / kI4Group * kBlockTokens) {}
  Byte* k;
  Byte* v;
  Half* k_scales;  // [groups][kBlockTokens]
  Half* k_minima;
  Half* v_scales;  // [kBlockTokens][groups]
  Half* v_minima;
};

template <class V>
inline void StoreTokensI4(const TokenStores& s) {
  const I4Parts<std::uint8_t, std::uint16_t> to(reinterpret_cast<std::uint8_t*>(s.block_head),
                                                s.head_dim);
  const std::ptrdiff_t n_groups = s.head_dim / kI4Group;
  constexpr std::ptrdiff_t kHalf = kI4Group / 2;
  std::int8_t row[kI4Group];
  for (std::ptrdiff_t t = 0; t < s.n_tokens; ++t) {
    const std::ptrdiff_t slot = s.first_slot + t;
    for (std::ptrdiff_t g = 0; g < n_groups; ++g) {
      const I4Scale k = RoundToI4<V>(s.k + t * s.head_dim + g * kI4Group, row);
      to.k_scales[g * kBlockTokens + slot] = k.scale;
      to.k_minima[g * kBlockTokens + slot] = k.minimum;
      for (std::ptrdiff_t i = 0; i < kHalf; ++i) {
        to.k[(g * kHalf + i) * kBlockTokens + slot] = Packed(row[2 * i], row[2 * i + 1]);
      }
      const I4Scale v = RoundToI4<V>(s.v + t * s.v_stride + g * kI4Group, row);
      to.v_scales[slot * n_groups + g] = v.scale;
      to.v_minima[slot * n_groups + g] = v.minimum;
      for (std::ptrdiff_t i = 0; i < kHalf; ++i) {
        to.v[(slot * n_groups + g) * kHalf + i] = Packed(row[i], row[kHalf + i]);
      }
    }
  }
}

template <class V>
inline void Store(const TokenStores& stores) {
  switch (stores.dtype) {
    case KvDtype::kF32:
      return StoreTokens<V, float>(stores);
    case KvDtype::kF16:
      return StoreTokens<V, std::uint16_t>(stores);
    case KvDtype::kI8:
      return StoreTokensI8<V>(stores);
    case KvDtype::kI4:
      return StoreTokensI4<V>(stores);
  }
}

}  // namespace ops
