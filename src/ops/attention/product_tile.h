#pragma once

// The one matrix product of attention: C[rows, n] = (C or 0) + A[rows, depth] * B[depth, n], each
// element of C summed over the depth in ascending order with one fused multiply-add a step. How
// rows and columns are cut into register tiles depends on the instruction set and changes no bit.

#include <cstddef>

#include "ops/kv_store/block_store.h"

namespace ops {

inline constexpr int kMaxTileRows = 6;

template <class T>
struct Product {
  const float* a = nullptr;
  std::ptrdiff_t a_stride = 0;
  const T* b = nullptr;
  std::ptrdiff_t b_stride = 0;
  float* c = nullptr;
  std::ptrdiff_t c_stride = 0;
  int n_rows = 0;
  int n = 0;  // a multiple of 16
  int depth_begin = 0;
  int depth_end = 0;
  // What is read next, or null: [n * kBlockTokens] elements that are fetched into the cache
  // meanwhile.
  const T* next = nullptr;
};

// Rows of `a` that one pointer reaches: the others' pointers are this many rows further on.
inline constexpr int kPointerRows = 3;

template <class V, int kRows, int kVectors, bool kAccumulate, bool kFetch, class T>
inline void RegisterTile(const Product<T>& p, int row, int column) {
  constexpr int kPointers = (kRows + kPointerRows - 1) / kPointerRows;
  // All that the loop reads as values of its own, and pointers that it moves: from `p` and from
  // indices g++ computes each address anew, and runs out of registers for it.
  const std::ptrdiff_t a_stride = p.a_stride;
  const std::ptrdiff_t b_stride = p.b_stride;
  const float* a[kPointers];
#pragma GCC unroll 8
  for (int i = 0; i < kPointers; ++i) {
    a[i] = p.a + (row + i * kPointerRows) * a_stride + p.depth_begin;
  }
  const T* b = p.b + p.depth_begin * b_stride + column;
  const T* next = kFetch ? p.next + static_cast<std::ptrdiff_t>(column) * kBlockTokens +
                               static_cast<std::ptrdiff_t>(p.depth_begin) * kVectors * V::kLanes
                         : nullptr;
  float* const c = p.c + row * p.c_stride + column;
  V sums[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sums[r][j] = kAccumulate ? V::Load(c + r * p.c_stride + j * V::kLanes) : V::Zero();
    }
  }
  for (int left = p.depth_end - p.depth_begin; left > 0; --left) {
    if constexpr (kFetch) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kVectors * V::kLanes; i += 64 / sizeof(T)) {
        __builtin_prefetch(next + i);
      }
      next += kVectors * V::kLanes;
    }
    V bs[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      bs[j] = V::Load(b + j * V::kLanes);
    }
    b += b_stride;
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const V x = V::Set(a[r / kPointerRows][(r % kPointerRows) * a_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        sums[r][j] = V::Fma(x, bs[j], sums[r][j]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < kPointers; ++i) {
      ++a[i];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      sums[r][j].Store(c + r * p.c_stride + j * V::kLanes);
    }
  }
}

// Columns of kRows rows, widest tiles first.
template <class V, int kRows, int kVectors, bool kAccumulate, class T>
inline void RowTile(const Product<T>& p, int row, int column) {
  for (; column + kVectors * V::kLanes <= p.n; column += kVectors * V::kLanes) {
    if (row == 0 && p.next != nullptr) {
      RegisterTile<V, kRows, kVectors, kAccumulate, true>(p, row, column);
    } else {
      RegisterTile<V, kRows, kVectors, kAccumulate, false>(p, row, column);
    }
  }
  if constexpr (kVectors > 1) {
    RowTile<V, kRows, kVectors / 2, kAccumulate>(p, row, column);
  }
}

// The widest tile of kRows rows that fits the registers. With few rows, that is when decoding, 8
// vectors let V of head_dim 128 stream by once.
template <class V, int kRows>
inline constexpr int TileVectors() {
  constexpr int kFit = V::kAccumulators / kRows;
  if constexpr (kRows <= 2 && kFit >= 12) {
    return 8;
  } else if constexpr (kFit >= 4) {
    return 4;
  } else {
    return kFit >= 2 ? 2 : 1;
  }
}

template <class V, int kRows, bool kAccumulate, class T>
inline void Rows(const Product<T>& p, int row) {
  for (; row + kRows <= p.n_rows; row += kRows) {
    RowTile<V, kRows, TileVectors<V, kRows>(), kAccumulate>(p, row, 0);
  }
  if constexpr (kRows > 1) {
    if (row < p.n_rows) {
      Rows<V, kRows - 1, kAccumulate>(p, row);
    }
  }
}

template <class V, bool kAccumulate, class T>
inline void Multiply(const Product<T>& p) {
  Rows<V, kMaxTileRows, kAccumulate>(p, 0);
}

}  // namespace ops
