// Speed of one layer's short convolution and delta rule: build with -DEMBERBANK_BUILD_BENCH=ON.

#include <benchmark/benchmark.h>

#include <random>

#include "ops/cpu_features.h"
#include "ops/gated_delta/gated_delta.h"
#include "ops/short_conv/short_conv.h"
#include "ops/thread_pool.h"

namespace ops {
namespace {

namespace mx = mlx::core;

mx::array Random(const mx::Shape& shape) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::size_t n = 1;
  for (const int size : shape) {
    n *= static_cast<std::size_t>(size);
  }
  std::vector<float> values(n);
  for (float& x : values) {
    x = normal(engine);
  }
  return mx::array(values.data(), shape, mx::float32);
}

// Qwen3-Next's layer (16 key heads, 32 value heads of 128) over n_tokens of one sequence. Several
// layers in turn, as in a model, so that a decode step finds its states in memory and not in a
// cache.
void Layers(benchmark::State& state, int n_tokens) {
  constexpr int kLayers = 8;
  ThreadPool pool(static_cast<int>(state.range(0)));
  const Context context{.instruction_set = BestInstructionSet(), .pool = &pool};
  GatedDeltaSpec delta{.n_k_heads = 16, .n_v_heads = 32, .k_dim = 128, .v_dim = 128};
  ShortConvSpec conv{.channels = 2 * delta.key_size() + delta.value_size(), .kernel = 4};
  LayerGroup group{.layers = {},
                   .window = kStateWindow,
                   .state_floats = delta.state_floats(),
                   .conv_floats = conv.state_floats()};
  for (int layer = 0; layer < kLayers; ++layer) {
    group.layers.push_back(layer);
  }
  const auto store = MakeKvStore(context, {.groups = {group},
                                           .n_kv_heads = 1,
                                           .head_dim = 16,
                                           .budget_bytes = std::uint64_t{1} << 30U});
  StepBatch batch;
  SequenceRows& rows = batch.sequences.emplace_back();
  rows.n_tokens = n_tokens;
  rows.block_tables = {
      std::vector<BlockId>(static_cast<std::size_t>((n_tokens + 63) / 64), kNoBlock)};
  rows.block_tables[0].back() = store->Allocate(0).value();
  const mx::array projected = Random({n_tokens, delta.projected_size()});
  const mx::array weight = Random({conv.kernel, conv.channels});
  const GatedDeltaWeights weights{
      .decay_rate = mx::array(std::vector<float>(32, 0.1F).data(), {32}),
      .dt_bias = Random({32}),
      .norm = Random({128})};
  for (auto _ : state) {
    for (int layer = 0; layer < kLayers; ++layer) {
      conv.layer = delta.layer = layer;
      const mx::array qkv =
          ShortConv(context, conv, projected, weight, std::nullopt, batch, *store);
      benchmark::DoNotOptimize(
          GatedDelta(context, delta, qkv, projected, weights, batch, *store).data<float>());
    }
    rows.first_position = n_tokens == 1 ? 1 : 0;  // a decode step goes on from its own block
  }
  state.counters["us_per_token_and_layer"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kLayers * n_tokens * 1e-6,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(Layers, decode, 1)->Arg(1)->Arg(2)->UseRealTime();
BENCHMARK_CAPTURE(Layers, prefill512, 512)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace ops

BENCHMARK_MAIN();
