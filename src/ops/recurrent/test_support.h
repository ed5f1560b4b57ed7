#pragma once

// What the tests of recurrent operations share: sequences that go through a layer in steps of any
// shape, through a store whose unused memory is NaN.

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <vector>

#include "ops/attention/test_support.h"
#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace ops::testing {

// How a test cuts its sequences into steps.
struct Stepping {
  int chunk = 1000;
  bool all_blocks = false;  // every block is there, as the cold end of a chunk needs only the last
  int together = 1000;      // sequences of a step
};

inline constexpr int kRecurrentLayer = 1;

// One recurrent layer's store and the rows of some sequences of one width.
class RecurrentSteps {
 public:
  // layer(x, batch, store): [rows, width] to [rows, out].
  using Layer =
      std::function<mlx::core::array(const mlx::core::array&, const StepBatch&, KvStore&)>;

  RecurrentSteps(const Context& context, int state_floats, int conv_floats)
      : native_(context.path == KernelPath::kNative),
        store_(MakeKvStore(context, {.groups = {{.layers = {0}},
                                                {.layers = {kRecurrentLayer},
                                                 .window = kStateWindow,
                                                 .state_floats = state_floats,
                                                 .conv_floats = conv_floats}},
                                     .n_kv_heads = 1,
                                     .head_dim = 16,
                                     .budget_bytes = std::uint64_t{1} << 28U})) {}

  // Rows of every sequence through the layer, in order: [sum of lengths, out].
  std::vector<float> Run(const std::vector<std::vector<float>>& sequences, int width,
                         const Stepping& stepping, const Layer& layer) {
    std::vector<Running> running(sequences.size());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      running[i].rows = &sequences[i];
    }
    while (Step(running, width, stepping, layer)) {
    }
    std::vector<float> all;
    for (Running& sequence : running) {
      all.insert(all.end(), sequence.out.begin(), sequence.out.end());
      for (const BlockId block : sequence.table) {
        if (block != kNoBlock) {
          store_->Free(1, block);
        }
      }
    }
    EXPECT_EQ(store_->used_bytes(), 0U);
    return all;
  }

 private:
  struct Running {
    const std::vector<float>* rows = nullptr;
    int done = 0;
    std::vector<BlockId> table;
    std::vector<float> out;
  };

  BlockId NewBlock() {
    const BlockId block = store_->Allocate(1).value();
    if (native_) {
      auto* const floats = reinterpret_cast<float*>(store_->LayerData(1, block, 0));
      std::fill_n(floats, store_->BlockBytes(1) / sizeof(float),
                  std::numeric_limits<float>::quiet_NaN());
    }
    return block;
  }

  bool Step(std::vector<Running>& running, int width, const Stepping& stepping,
            const Layer& layer) {
    StepBatch batch;
    std::vector<float> x;
    std::vector<Running*> taken;
    int row = 0;
    for (Running& sequence : running) {
      const int left = static_cast<int>(sequence.rows->size()) / width - sequence.done;
      if (left == 0 || static_cast<int>(taken.size()) == stepping.together) {
        continue;
      }
      const int n = std::min(left, stepping.chunk);
      const auto n_blocks = static_cast<std::size_t>((sequence.done + n + 63) / 64);
      while (sequence.table.size() < n_blocks) {
        const bool wanted = stepping.all_blocks || sequence.table.size() + 1 == n_blocks;
        sequence.table.push_back(wanted ? NewBlock() : kNoBlock);
      }
      batch.sequences.push_back({.first_row = row,
                                 .n_tokens = n,
                                 .first_position = sequence.done,
                                 .block_tables = {{}, sequence.table}});
      const auto at = sequence.rows->begin() + static_cast<std::ptrdiff_t>(sequence.done) * width;
      x.insert(x.end(), at, at + static_cast<std::ptrdiff_t>(n) * width);
      taken.push_back(&sequence);
      row += n;
    }
    if (taken.empty()) {
      return false;
    }
    mlx::core::array y = mlx::core::contiguous(
        layer(mlx::core::array(x.data(), {row, width}, mlx::core::float32), batch, *store_));
    y.eval();
    const auto out = static_cast<std::ptrdiff_t>(y.shape(1));
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const SequenceRows& rows = batch.sequences[i];
      const float* const first = y.data<float>() + rows.first_row * out;
      taken[i]->out.insert(taken[i]->out.end(), first, first + rows.n_tokens * out);
      taken[i]->done += rows.n_tokens;
    }
    return true;
  }

  bool native_;
  std::unique_ptr<KvStore> store_;
};

// Steps that must all give the bits of one step for each sequence alone.
inline std::vector<Stepping> OddSteppings() {
  return {{.chunk = 1},
          {.chunk = 7, .all_blocks = true},
          {.chunk = 64},
          {.chunk = 100, .together = 2},
          {.chunk = 130, .all_blocks = true},
          {.chunk = 1000, .all_blocks = true}};
}

}  // namespace ops::testing
