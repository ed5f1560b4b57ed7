#include "ops/linear/activations.h"

#include <functional>

namespace ops::linear {
namespace {

// Below this many values one thread is done before a second one has woken up (about 2 us).
constexpr std::size_t kSerialValues = 16384;

std::size_t Size(int n) { return static_cast<std::size_t>(n); }

void ForEachBlock(const RowBlocks& blocks, int n_in, ThreadPool& pool,
                  const std::function<void(int)>& task) {
  if (Size(blocks.n_rows) * Size(n_in) >= kSerialValues) {
    pool.ParallelFor(blocks.n_blocks, task);
    return;
  }
  for (int block = 0; block < blocks.n_blocks; ++block) {
    task(block);
  }
}

// Hands out consecutive arrays of `memory`.
template <class T>
T* Carve(std::byte*& at, std::size_t count) {
  T* start = reinterpret_cast<T*>(at);
  at += (count * sizeof(T) + 63) / 64 * 64;
  return start;
}

}  // namespace

RowBlocks::RowBlocks(int total_rows, int kernel_rows)
    : n_rows(total_rows),
      rows((total_rows + (total_rows + kernel_rows - 1) / kernel_rows - 1) /
           ((total_rows + kernel_rows - 1) / kernel_rows)),
      n_blocks((total_rows + rows - 1) / rows) {}

QuantizedRows::QuantizedRows(const float* x, const RowBlocks& blocks, int n_in,
                             const Kernels& kernels, std::span<const OffsetKind> kinds,
                             ThreadPool& pool)
    : blocks_(blocks),
      n_groups_(n_in / kGroup),
      // Per row and group: 32 codes, scale, scaled sum, two sums, two offsets a kind; and the
      // rounding up.
      memory_(Size(blocks.n_rows) * Size(n_groups_) * (48 + 8 * kinds.size()) + 64 * 8) {
  const std::size_t groups = Size(blocks.n_rows) * Size(n_groups_);
  std::byte* at = memory_.data();
  codes_ = Carve<std::int8_t>(at, groups * kGroup);
  scales_ = Carve<float>(at, groups);
  scaled_sums_ = Carve<float>(at, groups);
  sums_ = Carve<std::int32_t>(at, 2 * groups);
  offsets_ = Carve<std::int32_t>(at, 2 * groups * kinds.size());
  ForEachBlock(blocks_, n_in, pool, [&](int block) {
    kernels.quantize(x + static_cast<std::ptrdiff_t>(blocks_.first_row(block)) * n_in, n_in,
                     blocks_.rows_of(block), n_in, Block(block));
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      FillOffsets(block, kinds[kind], Offsets(kind));
    }
  });
}

QuantizedBlock QuantizedRows::Block(int block) {
  const std::size_t groups = Size(blocks_.first_row(block)) * Size(n_groups_);
  return {.codes = codes_ + groups * kGroup,
          .scales = scales_ + groups,
          .scaled_sums = scaled_sums_ + groups,
          .sums = sums_ + 2 * groups};
}

std::int32_t* QuantizedRows::Offsets(std::size_t kind) {
  return offsets_ + 2 * Size(blocks_.n_rows) * Size(n_groups_) * kind;
}

void QuantizedRows::FillOffsets(int block, const OffsetKind& kind, std::int32_t* offsets) {
  const int rows = blocks_.rows_of(block);
  const std::int32_t* sums = Block(block).sums;
  offsets += 2 * Size(blocks_.first_row(block)) * Size(n_groups_);
  if (kind.sixteen) {
    for (int i = 0; i < 2 * n_groups_ * rows; ++i) {
      offsets[i] = kind.factor * sums[i];
    }
    return;
  }
  for (int g = 0; g < n_groups_; ++g, sums += 2 * rows, offsets += rows) {
    for (int r = 0; r < rows; ++r) {
      offsets[r] = kind.factor * (sums[r] + sums[rows + r]);
    }
  }
}

void QuantizedRows::Point(int block, int first_input, std::size_t kind,
                          TileProduct& product) const {
  auto& self = const_cast<QuantizedRows&>(*this);
  const QuantizedBlock whole = self.Block(block);
  const std::size_t group = Size(first_input / kGroup) * Size(blocks_.rows_of(block));
  const std::size_t halves = product.product == Product::kSymmetric16 ? 2 : 1;
  product.x = whole.codes + group * kGroup;
  product.x_scales = whole.scales + group;
  product.x_sums = whole.scaled_sums + group;
  product.offsets =
      self.Offsets(kind) + 2 * Size(blocks_.first_row(block)) * Size(n_groups_) + halves * group;
}

void QuantizedRows::ScaledSums16(int block, int first_input, int n_groups, float* out) const {
  const QuantizedBlock whole = const_cast<QuantizedRows&>(*this).Block(block);
  const int rows = blocks_.rows_of(block);
  const std::int32_t* sums = whole.sums + Size(first_input / 16) * Size(rows);
  const float* scales = whole.scales + Size(first_input / kGroup) * Size(rows);
  for (int g = 0; g < n_groups; ++g) {
    for (int r = 0; r < rows; ++r) {
      out[g * rows + r] = scales[g / 2 * rows + r] * static_cast<float>(sums[g * rows + r]);
    }
  }
}

TransposedRows::TransposedRows(const float* x, const RowBlocks& blocks, int n_in, ThreadPool& pool)
    : blocks_(blocks), n_in_(n_in), memory_(Size(blocks.n_rows) * Size(n_in) * sizeof(float)) {
  auto* out = reinterpret_cast<float*>(memory_.data());
  ForEachBlock(blocks_, n_in, pool, [&](int block) {
    const std::size_t start = Size(blocks_.first_row(block)) * Size(n_in);
    const std::size_t rows = Size(blocks_.rows_of(block));
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < Size(n_in); ++i) {
        out[start + i * rows + r] = x[start + r * Size(n_in) + i];
      }
    }
  });
}

const float* TransposedRows::At(int block, int first_input) const {
  return reinterpret_cast<const float*>(memory_.data()) +
         Size(blocks_.first_row(block)) * Size(n_in_) +
         Size(first_input) * Size(blocks_.rows_of(block));
}

}  // namespace ops::linear
