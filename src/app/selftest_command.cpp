#include "app/selftest_command.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "app/kernel_choice.h"
#include "app/model_choice.h"
#include "app/print.h"
#include "app/selftest.h"
#include "base/log.h"
#include "model_files/model_source.h"

namespace app {
namespace {

// A new directory that goes with everything in it.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::error_code failed;
    std::string name =
        (std::filesystem::temp_directory_path(failed) / "emberbank-selftest-XXXXXX").string();
    if (!failed && ::mkdtemp(name.data()) != nullptr) {
      path_ = name;
    }
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    if (!path_.empty()) {
      std::filesystem::remove_all(path_, ignored);
    }
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }  // empty: it failed

 private:
  std::filesystem::path path_;
};

struct Bed {
  KernelChoice kernels;
  model_files::ModelSource source;
};

Result<Bed> Open(const SelftestOptions& options) {
  const Result<KernelChoice> kernels = ChooseKernels(ProcessEnvironment(), options.threads);
  if (!kernels) {
    return Fail(kernels.error());
  }
  const Result<ChosenModel> chosen = ChooseModel(options.model);
  if (!chosen) {
    return Fail(chosen.error());
  }
  Result<model_files::ModelSource> source = model_files::OpenModel(chosen->path);
  if (!source) {
    return Fail(source.error());
  }
  return Bed{.kernels = *kernels, .source = std::move(*source)};
}

Result<SelftestReport> RunWith(int kv_bits, const Bed& bed, const SelftestOptions& options) {
  const ScratchDirectory scratch;
  if (scratch.path().empty()) {
    return Fail(ErrorCode::kInternal, "A directory for temporary files could not be made.");
  }
  const std::unique_ptr<FileSystem> files = MakeOsFileSystem();
  const auto load = [&](std::uint64_t kv_bytes) {
    engine::EngineOptions engine_options;
    engine_options.path = bed.kernels.path;
    engine_options.instruction_set = bed.kernels.instruction_set;
    engine_options.threads = bed.kernels.threads;
    engine_options.kv_bits = kv_bits;
    engine_options.kv_budget_bytes = kv_bytes;
    return engine::LoadEngine(bed.source, engine_options);
  };
  SelftestPlan plan;
  plan.seed = static_cast<std::uint32_t>(options.seed);
  plan.lives = options.lives;
  plan.directory = scratch.path();
  plan.on_progress = [&](const std::string& line) {
    PrintTo(stderr, "[kv-bits {}] {}\n", kv_bits, line);
  };
  return RunSelftest(load, *files, plan);
}

// True when all was exact.
bool Print(int kv_bits, const SelftestReport& report) {
  for (const std::string& difference : report.differences) {
    PrintTo(stdout, "DIFFERS [kv-bits {}] {}\n", kv_bits, difference);
  }
  PrintTo(stdout,
          "{} [kv-bits {}]: {} answers compared, {} differ; prompt tokens: {} from memory, {} from "
          "disk, {} computed; {} blocks evicted, {} requests cancelled\n",
          report.differences.empty() ? "exact" : "NOT EXACT", kv_bits, report.compared,
          report.differences.size(), report.memory_tokens, report.disk_tokens,
          report.computed_tokens, report.evicted_blocks, report.cancelled);
  return report.differences.empty();
}

}  // namespace

int RunSelftestCommand(const SelftestOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging("warning");
  const Result<Bed> bed = Open(options);
  if (!bed) {
    PrintTo(stderr, "emberbank: {}\n", bed.error().message);
    return 1;
  }
  PrintTo(stderr, "{}, kernels: {}\n", bed->source.name, Describe(bed->kernels));
  bool exact = true;
  const std::vector<int> all(engine::kKvBits.begin(), engine::kKvBits.end());
  for (const int kv_bits : options.kv_bits.empty() ? all : options.kv_bits) {
    const Result<SelftestReport> report = RunWith(kv_bits, *bed, options);
    if (!report) {
      PrintTo(stderr, "emberbank: {}\n", report.error().message);
      return 1;
    }
    exact = Print(kv_bits, *report) && exact;
  }
  return exact ? 0 : 1;
}

}  // namespace app
