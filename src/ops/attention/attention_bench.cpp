// Speed of one layer's attention at depth: build with -DEMBERBANK_BUILD_BENCH=ON.
//   attention_bench --benchmark_filter=smollm2

#include <benchmark/benchmark.h>

#include <cmath>
#include <random>

#include "ops/attention/attention.h"
#include "ops/cpu_features.h"
#include "ops/rope/rope.h"
#include "ops/thread_pool.h"

namespace ops {
namespace {

namespace mx = mlx::core;

struct Shape {
  int n_heads;
  int n_kv_heads;
  int head_dim;
};
constexpr Shape kSmolLm2{9, 3, 64};
constexpr Shape kQwen3{16, 8, 128};

mx::array Random(int rows, int columns) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (float& x : values) {
    x = normal(engine);
  }
  return mx::array(values.data(), {rows, columns}, mx::float32);
}

// n_tokens at each of the sequences' ends, after `depth` tokens. Several layers in turn, as in a
// model, so that a decode step finds its blocks in memory and not in a cache.
void Attend(benchmark::State& state, Shape shape, int n_sequences, int n_tokens, int depth) {
  constexpr int kLayers = 8;
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Context context{.instruction_set = BestInstructionSet(), .pool = &pool};
  LayerGroup group;
  for (int layer = 0; layer < kLayers; ++layer) {
    group.layers.push_back(layer);
  }
  const auto store = MakeKvStore(context, {.groups = {group},
                                           .n_kv_heads = shape.n_kv_heads,
                                           .head_dim = shape.head_dim,
                                           .budget_bytes = std::uint64_t{4} << 30U});
  RopeSpec rope;
  for (int i = 0; i < shape.head_dim / 2; ++i) {
    rope.inv_freq.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / shape.head_dim)));
  }
  StepBatch batch;
  for (int s = 0; s < n_sequences; ++s) {
    SequenceRows& rows = batch.sequences.emplace_back(SequenceRows{.first_row = s * n_tokens,
                                                                   .n_tokens = n_tokens,
                                                                   .first_position = depth,
                                                                   .block_tables = {{}}});
    for (int p = 0; p < depth + n_tokens; p += kBlockTokens) {
      const BlockId block = store->Allocate(0).value();
      auto* data = reinterpret_cast<std::uint16_t*>(store->LayerData(0, block, 0));
      for (std::uint64_t i = 0; i < store->BlockBytes(0) / 2; ++i) {
        data[i] = static_cast<std::uint16_t>(0x3000U + i * 7919U % 2048U);
      }
      rows.block_tables[0].push_back(block);
    }
    for (int t = 0; t < n_tokens; ++t) {
      batch.positions.push_back(depth + t);
    }
  }
  const int n_rows = n_sequences * n_tokens;
  const mx::array qkv = Random(n_rows, (shape.n_heads + 2 * shape.n_kv_heads) * shape.head_dim);
  const mx::array angles = RopeAngles(rope, batch.positions);
  AttentionSpec spec{.n_heads = shape.n_heads,
                     .n_kv_heads = shape.n_kv_heads,
                     .head_dim = shape.head_dim,
                     .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim))};
  for (auto _ : state) {
    mx::array out =
        Attention(context, spec, qkv, angles, std::nullopt, std::nullopt, batch, *store);
    out.eval();
    spec.layer = (spec.layer + 1) % kLayers;
  }
  const double context_tokens = depth + (n_tokens + 1) / 2.0;
  const double flops = 4.0 * n_rows * shape.n_heads * shape.head_dim * context_tokens;
  const double bytes = 4.0 * n_sequences * shape.n_kv_heads * shape.head_dim * (depth + n_tokens);
  using benchmark::Counter;
  state.counters["GFLOP/s"] = Counter(flops * 1e-9, Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = Counter(bytes * 1e-9, Counter::kIsIterationInvariantRate);
}

BENCHMARK_CAPTURE(Attend, smollm2_prefill512_at0, kSmolLm2, 1, 512, 0)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, smollm2_prefill512_at4096, kSmolLm2, 1, 512, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, smollm2_decode_at64, kSmolLm2, 1, 1, 64)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, smollm2_decode_at4096, kSmolLm2, 1, 1, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, smollm2_decode8_at4096, kSmolLm2, 8, 1, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, qwen3_prefill512_at0, kQwen3, 1, 512, 0)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, qwen3_prefill512_at4096, kQwen3, 1, 512, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, qwen3_decode_at4096, kQwen3, 1, 1, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();
BENCHMARK_CAPTURE(Attend, qwen3_decode8_at4096, kQwen3, 8, 1, 4096)
    ->Arg(1)
    ->Arg(2)
    ->MeasureProcessCPUTime()
    ->UseRealTime();

}  // namespace
}  // namespace ops

BENCHMARK_MAIN();
