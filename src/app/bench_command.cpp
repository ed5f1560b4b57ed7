#include "app/bench_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/bench_session.h"
#include "app/kernel_choice.h"
#include "app/model_choice.h"
#include "app/print.h"
#include "app/progress.h"
#include "base/json.h"
#include "base/log.h"
#include "engine/engine.h"
#include "model_files/model_source.h"

namespace app {
namespace {

constexpr std::int64_t kParallelDepth = 256;  // tokens before sequences are decoded together
constexpr std::int64_t kWarmUpTokens = 64;

// One row of the table.
struct Measurement {
  std::string name;
  std::int64_t tokens = 0;  // computed while the time runs
  int n_sequences = 1;
  std::int64_t length = 0;  // of each sequence in the end
  std::function<Result<void>(BenchSession&)> prepare;
  std::function<Result<void>(BenchSession&)> work;
};

std::vector<Measurement> Plan(const BenchOptions& options) {
  const std::int64_t prefill = options.prefill;
  const std::int64_t decode = options.decode;
  std::vector<Measurement> plan;
  for (const std::int64_t depth : options.depths) {
    const auto fill = [depth](BenchSession& session) { return session.Prefill(0, depth); };
    plan.push_back({.name = fmt::format("prefill{}@{}", prefill, depth),
                    .tokens = prefill,
                    .length = depth + prefill,
                    .prepare = fill,
                    .work = [prefill](BenchSession& s) { return s.Prefill(0, prefill); }});
    plan.push_back({.name = fmt::format("decode{}@{}", decode, depth),
                    .tokens = decode,
                    .length = depth + decode,
                    .prepare = fill,
                    .work = [decode](BenchSession& s) { return s.Decode(decode); }});
  }
  for (const int n : options.parallel) {
    const auto fill_all = [n](BenchSession& session) -> Result<void> {
      for (int i = 0; i < n; ++i) {
        if (Result<void> filled = session.Prefill(i, kParallelDepth); !filled) {
          return filled;
        }
      }
      return {};
    };
    plan.push_back({.name = fmt::format("decode{}x{}@{}", decode, n, kParallelDepth),
                    .tokens = decode * n,
                    .n_sequences = n,
                    .length = kParallelDepth + decode,
                    .prepare = fill_all,
                    .work = [decode](BenchSession& s) { return s.Decode(decode); }});
  }
  return plan;
}

// Tokens per second of one run.
Result<double> RunOnce(engine::Engine& engine, const Measurement& measurement) {
  BenchSession session(engine, measurement.n_sequences, measurement.length);
  if (Result<void> ready = session.Allocate(); !ready) {
    return Fail(ready.error());
  }
  if (Result<void> ready = measurement.prepare(session); !ready) {
    return Fail(ready.error());
  }
  const auto start = std::chrono::steady_clock::now();
  if (Result<void> done = measurement.work(session); !done) {
    return Fail(done.error());
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return static_cast<double>(measurement.tokens) / elapsed.count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Result<Json> Measure(engine::Engine& engine, const BenchOptions& options) {
  const Measurement warm_up{.name = "warm-up",
                            .tokens = kWarmUpTokens,
                            .length = kWarmUpTokens,
                            .prepare = [](BenchSession&) { return Result<void>(); },
                            .work = [](BenchSession& s) { return s.Prefill(0, kWarmUpTokens); }};
  if (const Result<double> warmed = RunOnce(engine, warm_up); !warmed) {
    return Fail(warmed.error());
  }
  Json speeds = Json::object();
  for (const Measurement& measurement : Plan(options)) {
    std::vector<double> runs;
    for (int i = 0; i < options.repeat; ++i) {
      const Result<double> speed = RunOnce(engine, measurement);
      if (!speed) {
        return Fail(speed.error());
      }
      runs.push_back(*speed);
    }
    const double median = std::round(Median(runs) * 100) / 100;
    PrintTo(stderr, "{:<24} {:>10.2f} tok/s\n", measurement.name, median);
    speeds[measurement.name] = median;
  }
  return speeds;
}

Result<Json> Bench(const BenchOptions& options) {
  const Result<KernelChoice> kernels = ChooseKernels(ProcessEnvironment(), options.threads);
  if (!kernels) {
    return Fail(kernels.error());
  }
  const Result<ChosenModel> chosen = ChooseModel(options.model);
  if (!chosen) {
    return Fail(chosen.error());
  }
  const Result<model_files::ModelSource> source = model_files::OpenModel(chosen->path);
  if (!source) {
    return Fail(source.error());
  }
  Result<std::unique_ptr<engine::Engine>> engine = [&] {
    Progress progress(fmt::format("loading {}", source->name), /*quiet=*/false);
    return engine::LoadEngine(*source,
                              {.path = kernels->path,
                               .instruction_set = kernels->instruction_set,
                               .threads = kernels->threads,
                               .kv_bits = options.kv_bits,
                               .on_progress = [&](double share) { progress.Report(share); }});
  }();
  if (!engine) {
    return Fail(engine.error());
  }
  PrintTo(stderr, "kernels: {}\n", Describe(*kernels));
  return Measure(**engine, options);
}

}  // namespace

int RunBenchCommand(const BenchOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging("warning");
  const Result<Json> speeds = Bench(options);
  if (!speeds) {
    PrintTo(stderr, "emberbank: {}\n", speeds.error().message);
    return 1;
  }
  if (options.json) {
    PrintTo(stdout, "{}\n", DumpJson(*speeds));
    return 0;
  }
  for (const auto& [name, speed] : speeds->items()) {
    PrintTo(stdout, "{:<24} {:>10.2f} tok/s\n", name, speed.get<double>());
  }
  return 0;
}

}  // namespace app
