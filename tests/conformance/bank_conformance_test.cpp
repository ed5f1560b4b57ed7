// `emberbank selftest` over every family, on every instruction set and in both K/V types: reuse
// from memory and from disk, over evictions, cancellations and restarts, is exact to the bit.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "app/selftest.h"
#include "model_support/test_model.h"
#include "models/model.h"

namespace {

using model_support::Case;
using model_support::Path;

std::vector<Case> OneOfEachFamily() {
  std::vector<Case> chosen;
  std::ranges::copy_if(model_support::ReadCases(), std::back_inserter(chosen),
                       [](const Case& c) { return c.name == c.family + "-mlx-mixed"; });
  return chosen;
}

// Where a family is tested: its own combination of instruction set and K/V type, and the usual one.
// So each combination is met by some family, and the test stays short.
struct Combination {
  Path path;
  int kv_bits = 16;
};

std::vector<Combination> CombinationsFor(const Case& tested) {
  std::vector<Combination> all;
  for (const int kv_bits : engine::kKvBits) {
    for (const Path& path : model_support::AllPaths(kv_bits)) {
      // The reference's products may sum in another order for another number of rows.
      if (path.options.path == ops::KernelPath::kNative) {
        all.push_back({.path = path, .kv_bits = kv_bits});
      }
    }
  }
  const auto usual = std::ranges::find_if(all, [](const Combination& combination) {
    return combination.kv_bits == 16 &&
           combination.path.options.instruction_set == ops::BestInstructionSet();
  });
  const std::vector<Case> families = OneOfEachFamily();
  const auto index = std::ranges::find(families, tested.name, &Case::name) - families.begin();
  const Combination own = all[static_cast<std::size_t>(index) % all.size()];
  return {*usual, own};
}

class BankConformance : public ::testing::TestWithParam<Case> {};

TEST_P(BankConformance, EveryAnswerHasTheBitsOfTheSamePromptAlone) {
  const auto files = MakeOsFileSystem();
  const Result<model_files::ModelSource> source = model_files::OpenModel(GetParam().ModelPath());
  ASSERT_TRUE(source) << source.error().message;
  for (const auto& [path, kv_bits] : CombinationsFor(GetParam())) {
    SCOPED_TRACE(path.name + ", kv_bits " + std::to_string(kv_bits));
    const std::filesystem::path directory = std::filesystem::temp_directory_path() /
                                            ("emberbank-conformance-" + std::to_string(::getpid()));
    const auto load = [&](std::uint64_t kv_bytes) {
      engine::EngineOptions options = path.options;
      options.kv_budget_bytes = kv_bytes == 0 ? options.kv_budget_bytes : kv_bytes;
      return engine::LoadEngine(*source, options);
    };
    const Result<app::SelftestReport> report = app::RunSelftest(
        load, *files,
        {.seed = 5, .lives = 3, .requests = 12, .reply_tokens = 8, .directory = directory});
    std::filesystem::remove_all(directory);
    ASSERT_TRUE(report) << report.error().message;
    for (const std::string& difference : report->differences) {
      ADD_FAILURE() << difference;
    }
    EXPECT_GT(report->compared, 20);
    EXPECT_GT(report->cancelled, 0);
    // Each way was taken; how often depends on what the disk had by then.
    EXPECT_GT(report->memory_tokens, 500U);
    EXPECT_GT(report->disk_tokens, 250U);
    EXPECT_GT(report->evicted_blocks, 0U);
  }
}

TEST(BankConformance, EveryFamilyHasACase) {
  const std::vector<Case> cases = OneOfEachFamily();
  for (const models::ModelFamily* family : models::All()) {
    EXPECT_TRUE(std::ranges::any_of(cases, [&](const Case& each) {
      return std::ranges::find(family->model_types, each.family) != family->model_types.end();
    })) << family->model_types[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Families, BankConformance, ::testing::ValuesIn(OneOfEachFamily()),
                         [](const auto& info) { return info.param.family; });

}  // namespace
