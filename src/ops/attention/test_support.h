#pragma once

// What the tests of attention share: random sequences, run in steps of any shape through a store
// whose unused memory is NaN, and the slow judge in double precision.

#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/rope/rope.h"
#include "ops/test_sets.h"
#include "ops/thread_pool.h"

namespace ops::testing {

inline std::vector<float> RandomFloats(std::size_t n, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return normal(engine); });
  return values;
}

// One layer and the sequences that run through it.
struct Case {
  int n_heads = 4;
  int n_kv_heads = 2;
  int head_dim = 32;
  int rotary_dim = 32;
  int window = 0;
  bool norms = true;
  bool sinks = false;
  KvDtype dtype = KvDtype::kF16;
  float value_scale = 1.0F;
  std::vector<int> lengths{100};

  [[nodiscard]] int RowSize() const { return (n_heads + 2 * n_kv_heads) * head_dim; }
  [[nodiscard]] int OutSize() const { return n_heads * head_dim; }
  [[nodiscard]] std::vector<float> Qkv(std::size_t sequence) const {
    return RandomFloats(static_cast<std::size_t>(lengths[sequence] * RowSize()),
                        7U + static_cast<unsigned>(sequence), value_scale);
  }
  [[nodiscard]] std::vector<float> NormWeight(unsigned seed) const {
    std::vector<float> w = RandomFloats(static_cast<std::size_t>(head_dim), seed, 0.3F);
    std::ranges::for_each(w, [](float& x) { x += 1.0F; });
    return w;
  }
  [[nodiscard]] std::vector<float> Sinks() const {
    return RandomFloats(static_cast<std::size_t>(n_heads), 3, 2.0F);
  }
  [[nodiscard]] RopeSpec Rope() const {
    RopeSpec spec;
    for (int i = 0; i < rotary_dim / 2; ++i) {
      spec.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / rotary_dim)));
    }
    return spec;
  }
  [[nodiscard]] AttentionSpec Spec() const {
    return {.layer = 1,
            .n_heads = n_heads,
            .n_kv_heads = n_kv_heads,
            .head_dim = head_dim,
            .scale = 1.0F / std::sqrt(static_cast<float>(head_dim)),
            .window = window};
  }
};

// How many tokens of which sequence each step computes.
struct StepPart {
  std::size_t sequence = 0;
  int n_tokens = 0;
};
using Plan = std::vector<std::vector<StepPart>>;

// Steps of at most n tokens for one sequence.
inline Plan Chunked(int length, int n, std::size_t sequence = 0) {
  Plan plan;
  for (int t = 0; t < length; t += n) {
    plan.push_back({{.sequence = sequence, .n_tokens = std::min(n, length - t)}});
  }
  return plan;
}

class Runner {
 public:
  Runner(const Case& c, Context context, int n_threads)
      : case_(c),
        pool_(n_threads),
        context_(context),
        tables_(c.lengths.size()),
        done_(c.lengths.size()) {
    context_.pool = &pool_;
    store_ = MakeKvStore(
        context_, {.groups = {{.layers = {0}, .window = 0}, {.layers = {1, 2}, .window = c.window}},
                   .n_kv_heads = c.n_kv_heads,
                   .head_dim = c.head_dim,
                   .dtype = c.dtype,
                   .budget_bytes = std::uint64_t{64} << 20U});
    for (std::size_t s = 0; s < c.lengths.size(); ++s) {
      qkv_.push_back(c.Qkv(s));
      outputs_.emplace_back();
    }
  }

  // Per sequence: [length so far, n_heads * head_dim].
  const std::vector<std::vector<float>>& Run(const Plan& plan) {
    for (const std::vector<StepPart>& step : plan) {
      RunStep(step);
    }
    return outputs_;
  }

 private:
  void RunStep(const std::vector<StepPart>& step) {
    StepBatch batch;
    std::vector<float> rows;
    for (const StepPart& part : step) {
      const int first = done_[part.sequence];
      const auto from =
          qkv_[part.sequence].begin() + static_cast<std::ptrdiff_t>(first) * case_.RowSize();
      rows.insert(rows.end(), from,
                  from + static_cast<std::ptrdiff_t>(part.n_tokens) * case_.RowSize());
      GrowTable(part.sequence, first, part.n_tokens);
      batch.sequences.push_back({.first_row = static_cast<int>(batch.positions.size()),
                                 .n_tokens = part.n_tokens,
                                 .first_position = first,
                                 .block_tables = {{}, tables_[part.sequence]}});
      for (int t = 0; t < part.n_tokens; ++t) {
        batch.positions.push_back(first + t);
      }
    }
    const auto n_rows = static_cast<int>(batch.positions.size());
    std::optional<mlx::core::array> q_norm;
    std::optional<mlx::core::array> k_norm;
    if (case_.norms) {
      q_norm = mlx::core::array(case_.NormWeight(1).data(), {case_.head_dim}, mlx::core::float32);
      k_norm = mlx::core::array(case_.NormWeight(2).data(), {case_.head_dim}, mlx::core::float32);
    }
    std::optional<mlx::core::array> sinks;
    if (case_.sinks) {
      sinks = mlx::core::array(case_.Sinks().data(), {case_.n_heads}, mlx::core::float32);
    }
    mlx::core::array out =
        Attention(context_, case_.Spec(),
                  mlx::core::array(rows.data(), {n_rows, case_.RowSize()}, mlx::core::float32),
                  RopeAngles(case_.Rope(), batch.positions), q_norm, k_norm, batch, *store_, sinks);
    out = mlx::core::contiguous(out);
    out.eval();
    const float* values = out.data<float>();
    for (const StepPart& part : step) {
      const std::ptrdiff_t n = static_cast<std::ptrdiff_t>(part.n_tokens) * case_.OutSize();
      outputs_[part.sequence].insert(outputs_[part.sequence].end(), values, values + n);
      values += n;
      done_[part.sequence] += part.n_tokens;
    }
  }

  // Blocks for the new tokens, full of NaN; those that the window has passed are freed, as the
  // scheduler does.
  void GrowTable(std::size_t sequence, int first, int n_tokens) {
    std::vector<BlockId>& table = tables_[sequence];
    while (static_cast<int>(table.size()) * kBlockTokens < first + n_tokens) {
      const BlockId block = store_->Allocate(1).value();
      if (context_.path == KernelPath::kNative) {
        std::memset(store_->LayerData(1, block, 0), 0xFF, store_->BlockBytes(1));
      }
      table.push_back(block);
    }
    for (std::size_t i = 0; case_.window > 0 && i < table.size(); ++i) {
      if (table[i] != kNoBlock &&
          static_cast<int>(i + 1) * kBlockTokens <= first - case_.window + 1) {
        store_->Free(1, std::exchange(table[i], kNoBlock));
      }
    }
  }

  const Case& case_;
  ThreadPool pool_;
  Context context_;
  std::unique_ptr<KvStore> store_;
  std::vector<std::vector<BlockId>> tables_;
  std::vector<int> done_;
  std::vector<std::vector<float>> qkv_;
  std::vector<std::vector<float>> outputs_;
};

inline std::vector<std::vector<float>> RunCase(const Case& c, const Plan& plan, InstructionSet set,
                                               int n_threads = 1) {
  return Runner(c, {.path = KernelPath::kNative, .instruction_set = set, .pool = nullptr},
                n_threads)
      .Run(plan);
}

inline std::vector<std::vector<float>> RunReference(const Case& c, const Plan& plan) {
  return Runner(c, {.path = KernelPath::kReference}, 1).Run(plan);
}

// The definition, in double precision, for the first sequence: [length, n_heads * head_dim].
[[nodiscard]] std::vector<double> SlowAttention(const Case& c);

template <class A, class B>
double LargestDifference(const std::vector<A>& a, const std::vector<B>& b) {
  double worst = a.size() == b.size() ? 0.0 : 1e30;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    worst = d <= worst ? worst : (d == d ? d : 1e30);
  }
  return worst;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace ops::testing
