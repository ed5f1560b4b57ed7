#pragma once

// Bodies of the attention kernels, over one of the Vec16 classes. Included by plain.cpp, avx2.cpp,
// avx512.cpp only.

#include <limits>

#include "ops/attention/kernels.h"
#include "ops/attention/product_tile.h"
#include "ops/attention/store_impl.h"
#include "ops/kv_store/block_store.h"
#include "ops/vector/row_kernels_impl.h"
#include "ops/vector/saturated_half.h"
#include "ops/vector/vector_math.h"

namespace ops {

// From this many rows on, a block is converted to float once instead of in every register tile.
inline constexpr int kConvertRows = 2 * kMaxTileRows + 1;
inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

template <class V>
inline void PrepareHead(const HeadInput& input, float* out) {
  const int n = input.head_dim;
  const float* x = input.x;
  if (input.norm_weight != nullptr) {
    ScaleByWeight<V>(x, input.norm_weight, InverseRms<V>(x, n, input.eps), n, out);
    x = out;
  }
  RotateHead<V>(x, input.angles, input.rotary_dim, out);
  if (x != out) {
    for (int i = input.rotary_dim; i < n; ++i) {
      out[i] = x[i];
    }
  }
  if (input.scale != 1.0F) {
    for (int i = 0; i < n; i += V::kLanes) {
      V::Mul(V::Load(out + i), V::Set(input.scale)).Store(out + i);
    }
  }
}

// The tokens [lo, hi) of a block that a row may see.
struct SeenTokens {
  int lo = 0;
  int hi = 0;
};

// Blocks are walked one after the other; rows that see nothing of a block are left out of it
// altogether.
template <class V>
class TileWalk {
 public:
  TileWalk(const AttentionTile& tile, const AttentionScratch& scratch, const SoftmaxSums& sums)
      : tile_(tile), scratch_(scratch), sums_(sums) {}

  void Run(std::int64_t begin, std::int64_t end) {
    for (int r = 0; r < tile_.n_rows; ++r) {
      sums_.max[r] = kMinusInfinity;
      sums_.sum[r] = 0.0F;
    }
    for (std::ptrdiff_t i = 0; i < static_cast<std::ptrdiff_t>(tile_.n_rows) * tile_.head_dim;
         i += V::kLanes) {
      V::Zero().Store(sums_.acc + i);
    }
    const std::int64_t last = Position(tile_.n_rows - 1);
    const std::int64_t from = WindowStart(tile_.first_position);
    const std::int64_t first = begin > from ? begin : from;
    stop_ = end <= last ? end : last + 1;
    for (std::int64_t base = first / kBlockTokens * kBlockTokens; base < stop_;
         base += kBlockTokens) {
      switch (tile_.dtype) {
        case KvDtype::kF32:
          Block<float>(base);
          break;
        case KvDtype::kF16:
          Block<std::uint16_t>(base);
          break;
        case KvDtype::kI8:
          Block<std::int8_t>(base);
          break;
        case KvDtype::kI4:
          BlockI4(base);
          break;
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t Position(int row) const {
    return tile_.first_position + row / tile_.group;
  }
  [[nodiscard]] std::int64_t WindowStart(std::int64_t position) const {
    return tile_.window == 0 || position < tile_.window ? 0 : position - tile_.window + 1;
  }
  [[nodiscard]] SeenTokens Seen(int row, std::int64_t base) const {
    const std::int64_t position = Position(row);
    const std::int64_t lo = WindowStart(position) - base;
    const std::int64_t hi = position + 1 - base;
    return {.lo = lo < 0 ? 0 : static_cast<int>(lo),
            .hi = hi > kBlockTokens ? kBlockTokens : static_cast<int>(hi)};
  }

  // The rows [begin, end) that see something of the block, and what they see together: other tokens
  // may hold anything, even NaN.
  struct SeeingRows {
    int begin = 0;
    int end = 0;
    SeenTokens seen;
  };
  [[nodiscard]] SeeingRows RowsSeeing(std::int64_t base) const {
    SeeingRows rows{.begin = 0, .end = tile_.n_rows, .seen = {}};
    if (tile_.first_position < base) {
      rows.begin = static_cast<int>(base - tile_.first_position) * tile_.group;
    }
    while (rows.end > rows.begin && WindowStart(Position(rows.end - 1)) >= base + kBlockTokens) {
      rows.end -= 1;
    }
    if (rows.begin < rows.end) {
      rows.seen = {.lo = Seen(rows.begin, base).lo, .hi = Seen(rows.end - 1, base).hi};
    }
    return rows;
  }
  [[nodiscard]] const std::byte* HeadOf(std::int64_t base) const {
    return tile_.blocks[base / kBlockTokens] + tile_.head_offset;
  }

  template <class T>
  void Block(std::int64_t base) {
    const auto [row_begin, row_end, seen] = RowsSeeing(base);
    if (row_begin >= row_end) {
      return;
    }
    const T* k = reinterpret_cast<const T*>(HeadOf(base));
    const T* v = k + static_cast<std::ptrdiff_t>(tile_.head_dim) * kBlockTokens;
    if constexpr (sizeof(T) == sizeof(std::int8_t)) {
      scales_ = reinterpret_cast<const float*>(v + static_cast<std::ptrdiff_t>(tile_.head_dim) *
                                                       kBlockTokens);
    }
    if (sizeof(T) != sizeof(float) && row_end - row_begin >= kConvertRows) {
      ScoreRows(Converted(k, 0, kBlockTokens), row_begin, row_end);
      SoftmaxRows(base, row_begin, row_end);
      AddRows(Converted(v, seen.lo, seen.hi), seen, row_begin, row_end);
    } else {
      // Few rows wait for memory, and a block's two parts are too short for the processor to
      // foresee.
      ScoreRows(k, row_begin, row_end, v);
      SoftmaxRows(base, row_begin, row_end);
      AddRows(v, seen, row_begin, row_end, NextK<T>(base));
    }
  }

  // Each number is met in every row and belongs to a scale and a minimum: converted once.
  void BlockI4(std::int64_t base) {
    const SeeingRows rows = RowsSeeing(base);
    if (rows.begin >= rows.end) {
      return;
    }
    const I4Parts<const std::uint8_t, const std::uint16_t> head(
        reinterpret_cast<const std::uint8_t*>(HeadOf(base)), tile_.head_dim);
    ScoreRows(ConvertedK(head), rows.begin, rows.end);
    SoftmaxRows(base, rows.begin, rows.end);
    AddRows(ConvertedV(head, rows.seen), rows.seen, rows.begin, rows.end);
  }

  [[nodiscard]] const float* ConvertedK(
      const I4Parts<const std::uint8_t, const std::uint16_t>& head) const {
    constexpr std::ptrdiff_t kHalf = kI4Group / 2;
    for (std::ptrdiff_t g = 0; g < tile_.head_dim / kI4Group; ++g) {
      for (std::ptrdiff_t j = 0; j < kBlockTokens; j += V::kLanes) {
        const V scale = V::Load(head.k_scales + g * kBlockTokens + j);
        const V minimum = V::Load(head.k_minima + g * kBlockTokens + j);
        for (std::ptrdiff_t i = 0; i < kHalf; ++i) {
          const std::uint8_t* from = head.k + (g * kHalf + i) * kBlockTokens + j;
          float* to = scratch_.block + (g * kI4Group + 2 * i) * kBlockTokens + j;
          V::Fma(V::LowNibbles(from), scale, minimum).Store(to);
          V::Fma(V::HighNibbles(from), scale, minimum).Store(to + kBlockTokens);
        }
      }
    }
    return scratch_.block;
  }
  [[nodiscard]] const float* ConvertedV(
      const I4Parts<const std::uint8_t, const std::uint16_t>& head, SeenTokens seen) const {
    const std::ptrdiff_t n_groups = tile_.head_dim / kI4Group;
    for (std::ptrdiff_t i = seen.lo * n_groups; i < seen.hi * n_groups; ++i) {
      const V scale = V::Set(HalfToFloat(head.v_scales[i]));
      const V minimum = V::Set(HalfToFloat(head.v_minima[i]));
      const std::uint8_t* from = head.v + i * kI4Group / 2;
      V::Fma(V::LowNibbles(from), scale, minimum).Store(scratch_.block + i * kI4Group);
      V::Fma(V::HighNibbles(from), scale, minimum)
          .Store(scratch_.block + i * kI4Group + kI4Group / 2);
    }
    return scratch_.block;
  }

  template <class T>
  [[nodiscard]] const T* NextK(std::int64_t base) const {
    const std::int64_t next = base + kBlockTokens;
    return next < stop_
               ? reinterpret_cast<const T*>(tile_.blocks[next / kBlockTokens] + tile_.head_offset)
               : nullptr;
  }

  // The elements [begin, end) * head_dim of one part of a block, at the same places in the scratch.
  template <class T>
  const float* Converted(const T* from, std::ptrdiff_t begin, std::ptrdiff_t end) {
    for (std::ptrdiff_t i = begin * tile_.head_dim; i < end * tile_.head_dim; i += V::kLanes) {
      V::Load(from + i).Store(scratch_.block + i);
    }
    return scratch_.block;
  }

  // scores = q K, tokens in the lanes.
  template <class T>
  void ScoreRows(const T* k, int row_begin, int row_end, const T* next = nullptr) {
    Multiply<V, false>(
        Product<T>{.a = tile_.q + static_cast<std::ptrdiff_t>(row_begin) * tile_.head_dim,
                   .a_stride = tile_.head_dim,
                   .b = k,
                   .b_stride = kBlockTokens,
                   .c = scratch_.scores + static_cast<std::ptrdiff_t>(row_begin) * kBlockTokens,
                   .c_stride = kBlockTokens,
                   .n_rows = row_end - row_begin,
                   .n = kBlockTokens,
                   .depth_begin = 0,
                   .depth_end = tile_.head_dim,
                   .next = next});
  }

  // acc += weights V, dims in the lanes. A token outside a row's range has weight 0.
  template <class T>
  void AddRows(const T* v, SeenTokens seen, int row_begin, int row_end, const T* next = nullptr) {
    Multiply<V, true>(
        Product<T>{.a = scratch_.scores + static_cast<std::ptrdiff_t>(row_begin) * kBlockTokens,
                   .a_stride = kBlockTokens,
                   .b = v,
                   .b_stride = tile_.head_dim,
                   .c = sums_.acc + static_cast<std::ptrdiff_t>(row_begin) * tile_.head_dim,
                   .c_stride = tile_.head_dim,
                   .n_rows = row_end - row_begin,
                   .n = tile_.head_dim,
                   .depth_begin = seen.lo,
                   .depth_end = seen.hi,
                   .next = next});
  }

  // The scales of kI8, where a number stands for itself times its token's scale, come in here: K's
  // multiply the scores, V's the weights.
  //
  // Online softmax (Milakov & Gimelshein 2018), row by row: scores become weights, acc is rescaled
  // to the new maximum.
  void SoftmaxRows(std::int64_t base, int row_begin, int row_end) {
    for (int r = row_begin; r < row_end; ++r) {
      constexpr int kVectors = kBlockTokens / V::kLanes;
      float* scores = scratch_.scores + static_cast<std::ptrdiff_t>(r) * kBlockTokens;
      const SeenTokens seen = Seen(r, base);
      V s[kVectors];
      for (int j = 0; j < kVectors; ++j) {
        s[j] = V::Load(scores + j * V::kLanes);
        if (scales_ != nullptr) {
          s[j] = V::Mul(s[j], V::Load(scales_ + j * V::kLanes));
        }
        if (seen.lo > 0 || seen.hi < kBlockTokens) {
          s[j] =
              V::KeepLanes(s[j], seen.lo - j * V::kLanes, seen.hi - j * V::kLanes, kMinusInfinity);
        }
      }
      const float block_max = V::Max(V::Max(s[0], s[1]), V::Max(s[2], s[3])).Maximum();
      const float old_max = sums_.max[r];
      const float max = block_max > old_max ? block_max : old_max;
      for (int j = 0; j < kVectors; ++j) {
        s[j] = Exp2OfNonPositive(V::Sub(s[j], V::Set(max)));
        V weight = s[j];
        if (scales_ != nullptr) {
          weight = V::Mul(weight, V::Load(scales_ + kBlockTokens + j * V::kLanes));
        }
        weight.Store(scores + j * V::kLanes);
      }
      const float sum = V::Add(V::Add(s[0], s[1]), V::Add(s[2], s[3])).Sum();
      if (max == old_max) {
        sums_.sum[r] += sum;  // the factor would be exactly 1
        continue;
      }
      const V factor = Exp2OfNonPositive(V::Set(old_max - max));
      float factors[V::kLanes];
      factor.Store(factors);
      sums_.sum[r] = sums_.sum[r] * factors[0] + sum;
      sums_.max[r] = max;
      float* acc = sums_.acc + static_cast<std::ptrdiff_t>(r) * tile_.head_dim;
      for (int i = 0; i < tile_.head_dim; i += V::kLanes) {
        V::Mul(V::Load(acc + i), factor).Store(acc + i);
      }
    }
  }

  const float* scales_ = nullptr;  // of kI8, [K: kBlockTokens | V: kBlockTokens]
  std::int64_t stop_ = 0;          // end of the positions to walk
  const AttentionTile& tile_;
  const AttentionScratch& scratch_;
  const SoftmaxSums& sums_;
};

template <class V>
inline void AttendChunk(const AttentionTile& tile, std::int64_t begin, std::int64_t end,
                        const AttentionScratch& scratch, const SoftmaxSums& sums) {
  TileWalk<V>(tile, scratch, sums).Run(begin, end);
}

template <class V>
inline void FoldChunk(const SoftmaxSums& total, const SoftmaxSums& chunk, int n_rows,
                      int head_dim) {
  for (std::ptrdiff_t r = 0; r < n_rows; ++r) {
    if (chunk.max[r] == kMinusInfinity) {
      continue;
    }
    const float max = total.max[r] > chunk.max[r] ? total.max[r] : chunk.max[r];
    const V total_factor = Exp2OfNonPositive(V::Set(total.max[r] - max));
    const V chunk_factor = Exp2OfNonPositive(V::Set(chunk.max[r] - max));
    float f[2][V::kLanes];
    total_factor.Store(f[0]);
    chunk_factor.Store(f[1]);
    total.max[r] = max;
    total.sum[r] = total.sum[r] * f[0][0] + chunk.sum[r] * f[1][0];
    float* to = total.acc + r * head_dim;
    const float* from = chunk.acc + r * head_dim;
    for (int i = 0; i < head_dim; i += V::kLanes) {
      V::Fma(V::Load(from + i), chunk_factor, V::Mul(V::Load(to + i), total_factor)).Store(to + i);
    }
  }
}

// + 0 makes a zero positive: a weight of 0 times a negative V may have turned its sign.
template <class V>
inline void FinishRow(const float* acc, float sum, int head_dim, float* out) {
  const V inverse = V::Set(1.0F / sum);
  for (int i = 0; i < head_dim; i += V::kLanes) {
    V::Add(V::Mul(V::Load(acc + i), inverse), V::Zero()).Store(out + i);
  }
}

template <class V>
inline constexpr AttentionKernels kAttentionKernels{.prepare_head = &PrepareHead<V>,
                                                    .store = &Store<V>,
                                                    .attend = &AttendChunk<V>,
                                                    .fold = &FoldChunk<V>,
                                                    .finish = &FinishRow<V>};

}  // namespace ops
