// The kernels of every instruction set that is here against the plain ones, to the bit, on nothing
// but their own tables: also what runs under an emulator for other processors (tests/neon).
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "ops/attention/kernels.h"
#include "ops/gated_delta/kernels.h"
#include "ops/kv_store/block_store.h"
#include "ops/short_conv/kernels.h"
#include "ops/test_sets.h"
#include "ops/vector/row_kernels.h"

namespace ops {
namespace {

using Floats = std::vector<float>;

Floats Random(std::size_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Floats values(n);
  std::ranges::generate(values, [&] { return normal(engine); });
  return values;
}

// Runs `compute` with each set and compares all that it returns.
void ExpectSameInAllSets(const std::string& what,
                         const std::function<Floats(InstructionSet)>& compute) {
  const Floats plain = compute(InstructionSet::kPlain);
  for (const InstructionSet set : testing::PresentSets()) {
    const Floats values = compute(set);
    ASSERT_EQ(values.size(), plain.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(plain[i]))
          << what << ", " << Name(set) << ", value " << i << ": " << values[i] << " and "
          << plain[i];
    }
  }
}

const std::vector<int> kSizes{1, 15, 16, 17, 31, 33, 64, 100, 576};
constexpr int kRows = 3;

TEST(KernelSets, RowKernels) {
  for (const int d : kSizes) {
    const auto n = static_cast<std::size_t>(kRows * d);
    const Floats x = Random(n, 1);
    const Floats residual = Random(n, 2, 3.0F);
    const Floats weight = Random(static_cast<std::size_t>(d), 3);
    const Floats pairs = Random(2 * n, 4, 5.0F);
    ExpectSameInAllSets("rows of " + std::to_string(d), [&](InstructionSet set) {
      const RowKernels& kernels = RowKernelsFor(set);
      Floats all;
      const auto take = [&](const Floats& y) { all.insert(all.end(), y.begin(), y.end()); };
      Floats y(n);
      Floats sum(n);
      NormRows norm{.x = x.data(),
                    .residual = residual.data(),
                    .weight = weight.data(),
                    .sum = sum.data(),
                    .y = y.data(),
                    .n_rows = kRows,
                    .d = d,
                    .eps = 1e-6F};
      kernels.rms_norm(norm);
      take(y);
      kernels.add_rms_norm(norm);
      take(y);
      take(sum);
      const GluRows glu{.gate_up = pairs.data(), .y = y.data(), .n_rows = kRows, .d = d};
      kernels.silu_glu(glu);
      take(y);
      kernels.gelu_tanh_glu(glu);
      take(y);
      kernels.sigmoid_gate(
          {.x = x.data(), .gate = pairs.data(), .y = y.data(), .n = static_cast<int>(n)});
      take(y);
      return all;
    });
  }
}

TEST(KernelSets, Rope) {
  constexpr int kHeads = 2;
  for (const int head_dim : {16, 32, 64, 80}) {
    const Floats x = Random(static_cast<std::size_t>(kRows * kHeads * head_dim), 1);
    const int rotary_dim = head_dim / 2;
    const Floats angles = Random(static_cast<std::size_t>(kRows * rotary_dim), 2);
    ExpectSameInAllSets("rope", [&](InstructionSet set) {
      Floats y(x.size());
      RowKernelsFor(set).rope({.x = x.data(),
                               .angles = angles.data(),
                               .y = y.data(),
                               .n_rows = kRows,
                               .n_heads = kHeads,
                               .head_dim = head_dim,
                               .rotary_dim = rotary_dim});
      return y;
    });
  }
}

// One KV head with three blocks of context, and rows that attend to it.
class AttentionCase {
 public:
  AttentionCase(KvDtype dtype, int head_dim, int n_rows, int group, int window)
      : dtype_(dtype), head_dim_(head_dim), n_rows_(n_rows), group_(group), window_(window) {}

  [[nodiscard]] Floats Compute(InstructionSet set) const {
    const AttentionKernels& kernels = AttentionKernelsFor(set);
    const std::size_t bytes = KvHeadBytes(dtype_, head_dim_);
    std::vector<Floats> blocks;  // floats for their alignment
    std::vector<const std::byte*> table;
    for (int b = 0; b < kBlocks; ++b) {
      blocks.push_back(Stored(kernels, b, bytes));
      table.push_back(reinterpret_cast<const std::byte*>(blocks.back().data()));
    }
    const auto size = static_cast<std::size_t>(n_rows_ * head_dim_);
    const Floats raw = Random(size, 9);
    const Floats weight = Random(static_cast<std::size_t>(head_dim_), 10);
    const Floats angles = Random(static_cast<std::size_t>(head_dim_), 11);
    Floats q(size);
    for (int r = 0; r < n_rows_; ++r) {
      kernels.prepare_head({.x = raw.data() + r * head_dim_,
                            .norm_weight = weight.data(),
                            .angles = angles.data(),
                            .head_dim = head_dim_,
                            .rotary_dim = head_dim_,
                            .eps = 1e-6F,
                            .scale = 0.25F},
                           q.data() + r * head_dim_);
    }
    const int n_tokens = (n_rows_ + group_ - 1) / group_;
    const AttentionTile tile{.q = q.data(),
                             .n_rows = n_rows_,
                             .group = group_,
                             .head_dim = head_dim_,
                             .first_position = kBlocks * kBlockTokens - 5 - n_tokens,
                             .window = window_,
                             .blocks = table.data(),
                             .head_offset = 0,
                             .dtype = dtype_};
    return Attend(kernels, tile);
  }

 private:
  static constexpr int kBlocks = 3;

  [[nodiscard]] Floats Stored(const AttentionKernels& kernels, int b, std::size_t bytes) const {
    const auto n = static_cast<std::size_t>(kBlockTokens * head_dim_);
    const Floats k = Random(n, static_cast<unsigned>(20 + b));
    const Floats v = Random(n, static_cast<unsigned>(30 + b), 4.0F);
    Floats block(bytes / sizeof(float));
    kernels.store({.k = k.data(),
                   .v = v.data(),
                   .v_stride = head_dim_,
                   .block_head = reinterpret_cast<std::byte*>(block.data()),
                   .first_slot = 0,
                   .n_tokens = kBlockTokens,
                   .head_dim = head_dim_,
                   .dtype = dtype_});
    return block;
  }

  // In two chunks, which are folded.
  [[nodiscard]] Floats Attend(const AttentionKernels& kernels, const AttentionTile& tile) const {
    const auto rows = static_cast<std::size_t>(n_rows_);
    const std::size_t size = rows * static_cast<std::size_t>(head_dim_);
    Floats scores(rows * kBlockTokens);
    Floats block(static_cast<std::size_t>(head_dim_ * kBlockTokens));
    const AttentionScratch scratch{.scores = scores.data(), .block = block.data()};
    Floats max[2] = {Floats(rows), Floats(rows)};
    Floats sum[2] = {Floats(rows), Floats(rows)};
    Floats acc[2] = {Floats(size), Floats(size)};
    const std::int64_t ends[3] = {0, kBlockTokens, kBlocks * kBlockTokens};
    for (int i = 0; i < 2; ++i) {
      kernels.attend(tile, ends[i], ends[i + 1], scratch,
                     {.max = max[i].data(), .sum = sum[i].data(), .acc = acc[i].data()});
    }
    kernels.fold({.max = max[0].data(), .sum = sum[0].data(), .acc = acc[0].data()},
                 {.max = max[1].data(), .sum = sum[1].data(), .acc = acc[1].data()}, n_rows_,
                 head_dim_);
    Floats out(size);
    for (int r = 0; r < n_rows_; ++r) {
      kernels.finish(acc[0].data() + r * head_dim_, sum[0][static_cast<std::size_t>(r)], head_dim_,
                     out.data() + r * head_dim_);
    }
    return out;
  }

  KvDtype dtype_;
  int head_dim_;
  int n_rows_;
  int group_;
  int window_;
};

TEST(KernelSets, Attention) {
  for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kF16, KvDtype::kI8, KvDtype::kI4}) {
    for (const int head_dim : {32, 64, 128}) {
      for (const int n_rows : {1, 2, 5, 14}) {
        for (const int window : {0, 70}) {
          const AttentionCase attention(dtype, head_dim, n_rows, n_rows == 14 ? 7 : 1, window);
          ExpectSameInAllSets(std::string(Name(dtype)) + " " + std::to_string(head_dim) + " " +
                                  std::to_string(n_rows) + " " + std::to_string(window),
                              [&](InstructionSet set) { return attention.Compute(set); });
        }
      }
    }
  }
}

TEST(KernelSets, GatedDelta) {
  constexpr int kKeyDim = 24;
  for (const int n_columns : {kDeltaLanes, kDeltaColumns}) {
    const Floats state = Random(kKeyDim * kDeltaColumns, 1);
    const Floats q = Random(kRows * kKeyDim, 2);
    const Floats k = Random(kRows * kKeyDim, 3);
    const Floats v = Random(static_cast<std::size_t>(kRows * n_columns), 4);
    const Floats decay = {0.5F, 0.9F, 0.99F};
    const Floats beta = {0.1F, 0.7F, 0.3F};
    ExpectSameInAllSets("gated delta", [&](InstructionSet set) {
      const DeltaKernels& kernels = DeltaKernelsFor(set);
      alignas(64) float moved[kKeyDim * kDeltaColumns];
      std::ranges::copy(state, moved);
      Floats all(v.size());
      kernels.run({.state = moved,
                   .n_columns = n_columns,
                   .q = q.data(),
                   .k = k.data(),
                   .qk_stride = kKeyDim,
                   .v = v.data(),
                   .v_stride = n_columns,
                   .decay = decay.data(),
                   .beta = beta.data(),
                   .gate_stride = 1,
                   .out = all.data(),
                   .out_stride = n_columns,
                   .n_rows = kRows,
                   .k_dim = kKeyDim});
      all.insert(all.end(), std::begin(moved), std::end(moved));
      Floats y(static_cast<std::size_t>(n_columns));
      kernels.normalise({.x = v.data(), .y = y.data(), .dim = n_columns, .scale = 0.125F});
      all.insert(all.end(), y.begin(), y.end());
      kernels.gated_norm(
          {.y = y.data(), .z = q.data(), .weight = k.data(), .dim = n_columns, .eps = 1e-6F});
      all.insert(all.end(), y.begin(), y.end());
      return all;
    });
  }
}

TEST(KernelSets, ShortConvolution) {
  constexpr int kKernel = 4;
  for (const int n_channels : {16, 33, 48}) {
    const auto channels = static_cast<std::size_t>(n_channels);
    const Floats x = Random(kRows * channels, 1);
    const Floats gates = Random(2 * kRows * channels, 2);
    const Floats weight = Random(kKernel * channels, 3);
    const Floats bias = Random(channels, 4);
    const Floats before = Random((kKernel - 1) * channels, 5);
    ExpectSameInAllSets("short convolution", [&](InstructionSet set) {
      const ConvKernels& kernels = ConvKernelsFor(set);
      Floats all;
      for (auto* compute : {kernels.plain, kernels.silu, kernels.gated}) {
        Floats past = before;
        Floats y(x.size());
        compute({.x = x.data(),
                 .in_gate = gates.data(),
                 .out_gate = gates.data() + x.size(),
                 .x_stride = n_channels,
                 .y = y.data(),
                 .y_stride = n_channels,
                 .weight = weight.data(),
                 .bias = bias.data(),
                 .past = past.data(),
                 .past_stride = n_channels,
                 .channel_stride = n_channels,
                 .n_rows = kRows,
                 .n_channels = n_channels,
                 .kernel = kKernel});
        all.insert(all.end(), y.begin(), y.end());
        all.insert(all.end(), past.begin(), past.end());
      }
      return all;
    });
  }
}

}  // namespace
}  // namespace ops
