// linear_bench: GOP/s and GB/s of the native products, one line a shape; EMBERBANK_ISA and
// EMBERBANK_THREADS choose.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu_features.h"
#include "ops/linear/native_product.h"
#include "ops/thread_pool.h"

namespace ops::linear {
namespace {

ThreadPool& Pool() {
  static ThreadPool pool([] {
    const char* wanted = std::getenv("EMBERBANK_THREADS");
    return std::max(1, wanted != nullptr ? std::atoi(wanted) : DetectCpu().physical_cores);
  }());
  return pool;
}

WeightSource MakeSource(WeightFormat format, int n_out, int n_in, std::vector<std::byte>& data) {
  WeightSource source{.name = "w", .format = format, .n_out = n_out, .n_in = n_in};
  data.resize(StoredRowBytes(source) * static_cast<std::size_t>(n_out));
  std::mt19937 random(1);
  for (std::byte& byte : data) {
    byte = static_cast<std::byte>((random() & 0x0F) | 0x30);  // exponents: no NaN, no denormals
  }
  source.data = data;
  return source;
}

void Multiply(benchmark::State& state, WeightFormat format, int n_rows, int n_out, int n_in) {
  std::vector<std::byte> data;
  const WeightSource source = MakeSource(format, n_out, n_in, data);
  std::vector<PackedMatrix> parts;
  parts.emplace_back(source, Pool());
  const NativeProduct product(std::move(parts), {}, KernelsFor(BestInstructionSet()), Pool());
  std::vector<float> x(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_in));
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  std::generate(x.begin(), x.end(), [&] { return normal(random); });
  std::vector<float> y(static_cast<std::size_t>(n_rows) * static_cast<std::size_t>(n_out));
  for (auto _ : state) {
    product.Multiply(x.data(), n_rows, y.data());
    benchmark::DoNotOptimize(y.data());
  }
  const double operations = 2.0 * n_rows * n_out * n_in;
  state.counters["GOP/s"] =
      benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(product.bytes()) * 1e-9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

struct Named {
  const char* name;
  WeightFormat format;
};

constexpr Named kFormats[] = {{"q4_0", WeightFormat::kQ4_0}, {"q4_1", WeightFormat::kQ4_1},
                              {"q5_0", WeightFormat::kQ5_0}, {"q8_0", WeightFormat::kQ8_0},
                              {"q4_k", WeightFormat::kQ4_K}, {"q6_k", WeightFormat::kQ6_K},
                              {"bf16", WeightFormat::kBF16}, {"f32", WeightFormat::kF32}};

struct Shape {
  int n_rows;
  int n_out;
  int n_in;
};

constexpr Shape kShapes[] = {{512, 1536, 576}, {512, 2048, 2048}, {64, 2048, 2048},
                             {8, 2048, 2048},  {1, 1536, 576},    {1, 16384, 4096}};

}  // namespace

void RegisterAll() {
  for (const Named& format : kFormats) {
    for (const Shape& shape : kShapes) {
      const bool k_format =
          format.format == WeightFormat::kQ4_K || format.format == WeightFormat::kQ6_K;
      const int n_in = k_format ? (shape.n_in + 255) / 256 * 256 : shape.n_in;
      const std::string name = std::string(format.name) + "/" + std::to_string(shape.n_rows) + "x" +
                               std::to_string(shape.n_out) + "x" + std::to_string(n_in);
      benchmark::RegisterBenchmark(name.c_str(),
                                   [=](benchmark::State& state) {
                                     Multiply(state, format.format, shape.n_rows, shape.n_out,
                                              n_in);
                                   })
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace ops::linear

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", std::string(ops::Name(ops::BestInstructionSet())));
  ops::linear::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
