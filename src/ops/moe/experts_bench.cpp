// experts_bench: milliseconds of one layer's routed experts, GOP/s, and GB/s of the weights that a
// step reads; EMBERBANK_ISA and EMBERBANK_THREADS choose. Each iteration of a small step takes
// other experts, as decoding does, so that they come from memory.
#include <benchmark/benchmark.h>
#include <mlx/ops.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "ops/cpu_features.h"
#include "ops/linear/coding.h"
#include "ops/moe/experts.h"
#include "ops/thread_pool.h"

namespace ops {
namespace {

using mlx::core::array;

ThreadPool& Pool() {
  static ThreadPool pool([] {
    const char* wanted = std::getenv("EMBERBANK_THREADS");
    return std::max(1, wanted != nullptr ? std::atoi(wanted) : DetectCpu().physical_cores);
  }());
  return pool;
}

struct Model {
  const char* name;
  int n_experts;
  int n_chosen;
  int hidden;
  int intermediate;
};

constexpr Model kModels[] = {{"qwen3-30b-a3b", 128, 8, 2048, 768},
                             {"qwen3-next-80b-a3b", 512, 10, 2048, 512},
                             {"gpt-oss-20b", 32, 4, 2880, 2880}};

struct Named {
  const char* name;
  WeightFormat format;
};

constexpr Named kFormats[] = {{"q4_0", WeightFormat::kQ4_0}, {"q8_0", WeightFormat::kQ8_0}};

// All experts have the same stored matrices; packed they are different memory.
std::unique_ptr<Experts> MakeLayer(const Model& model, WeightFormat format) {
  WeightSource source{
      .name = "w", .format = format, .n_out = model.intermediate, .n_in = model.hidden};
  std::vector<std::byte> data(linear::StoredRowBytes(source) *
                              static_cast<std::size_t>(model.intermediate));
  std::mt19937 random(1);
  for (std::byte& byte : data) {
    byte = static_cast<std::byte>((random() & 0x0F) | 0x30);  // exponents: no NaN, no denormals
  }
  source.data = data;
  WeightSource down = source;
  std::swap(down.n_out, down.n_in);
  const std::vector<ExpertSource> experts(static_cast<std::size_t>(model.n_experts),
                                          {.gate = source, .up = source, .down = down});
  return std::move(*MakeExperts({.instruction_set = BestInstructionSet(), .pool = &Pool()}, experts,
                                Activation::kSilu));
}

std::vector<Routing> Routings(const Model& model, int n_rows, int count, double& experts_read) {
  std::mt19937 random(2);
  std::vector<Routing> made;
  experts_read = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> experts;
    for (int row = 0; row < n_rows; ++row) {
      std::vector<std::int32_t> all(static_cast<std::size_t>(model.n_experts));
      std::iota(all.begin(), all.end(), 0);
      std::ranges::shuffle(all, random);
      experts.insert(experts.end(), all.begin(), all.begin() + model.n_chosen);
    }
    experts_read += static_cast<double>(std::set(experts.begin(), experts.end()).size()) / count;
    const std::vector<float> weights(experts.size(), 0.125F);
    made.push_back({.experts = array(experts.data(), {n_rows, model.n_chosen}),
                    .weights = array(weights.data(), {n_rows, model.n_chosen})});
  }
  return made;
}

void Run(benchmark::State& state, const Model& model, WeightFormat format, int n_rows) {
  const auto experts = MakeLayer(model, format);
  double experts_read = 0;
  const std::vector<Routing> routings = Routings(model, n_rows, n_rows < 64 ? 64 : 2, experts_read);
  std::vector<float> values(static_cast<std::size_t>(n_rows * model.hidden));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::ranges::generate(values, [&] { return normal(random); });
  const array x(values.data(), {n_rows, model.hidden});
  std::size_t i = 0;
  for (auto _ : state) {
    array y = (*experts)(x, routings[i++ % routings.size()]);
    benchmark::DoNotOptimize(y.data<float>());
  }
  const double operations = 6.0 * n_rows * model.n_chosen * model.hidden * model.intermediate;
  const double bytes = static_cast<double>(experts->bytes()) / model.n_experts * experts_read;
  state.counters["GOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] =
      benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void RegisterAll() {
  for (const Model& model : kModels) {
    for (const Named& format : kFormats) {
      for (const int n_rows : {1, 8, 512}) {
        const std::string name =
            std::string(model.name) + "/" + format.name + "/" + std::to_string(n_rows);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&model, &format, n_rows](benchmark::State& state) {
                                       Run(state, model, format.format, n_rows);
                                     })
            ->UseRealTime()
            ->Unit(benchmark::kMillisecond);
      }
    }
  }
}

}  // namespace
}  // namespace ops

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", std::string(ops::Name(ops::BestInstructionSet())));
  ops::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
