#include "app/machine_facts.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/memory_file_system.h"

namespace app {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

// A folder with files as Linux has them.
class SystemFiles {
 public:
  SystemFiles() : root_(std::filesystem::path(testing::TempDir()) / "machine_facts") {
    std::filesystem::remove_all(root_);
  }
  ~SystemFiles() { std::filesystem::remove_all(root_); }
  SystemFiles(const SystemFiles&) = delete;
  SystemFiles& operator=(const SystemFiles&) = delete;

  void Add(const std::string& path, const std::string& content) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << content;
  }
  [[nodiscard]] MachineFacts Read() const {
    MachineFacts facts;
    ReadSystemFiles(root_, facts);
    return facts;
  }

 private:
  std::filesystem::path root_;
};

TEST(MachineFacts, ReadsWhatLinuxTells) {
  const SystemFiles files;
  files.Add("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 3 GHz\nflags : fpu\n");
  files.Add("proc/loadavg", "1.25 0.50 0.10 1/200 4242\n");
  files.Add("proc/meminfo",
            "MemTotal:       8000000 kB\nMemAvailable:   2000000 kB\nSwapTotal: 3000 kB\n"
            "SwapFree: 1000 kB\n");
  files.Add("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  files.Add("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  const MachineFacts facts = files.Read();
  EXPECT_EQ(facts.processor, "Some CPU @ 3 GHz");
  EXPECT_EQ(facts.load, 1.25);
  EXPECT_EQ(facts.available_bytes, std::uint64_t{2000000} << 10U);
  EXPECT_EQ(facts.swapped_bytes, std::uint64_t{2000} << 10U);
  EXPECT_EQ(facts.large_pages, "never");
  EXPECT_EQ(facts.governor, "powersave");
}

TEST(MachineFacts, ASystemThatTellsNothingIsNoError) {
  const MachineFacts facts = SystemFiles().Read();
  EXPECT_EQ(facts.processor, "");
  EXPECT_EQ(facts.load, std::nullopt);
  EXPECT_EQ(facts.available_bytes, std::nullopt);
  EXPECT_EQ(facts.swapped_bytes, std::nullopt);
  EXPECT_EQ(facts.large_pages, "");
}

TEST(MachineFacts, ADiskIsMeasuredAndLeftAsItWas) {
  MemoryFileSystem files;
  const Result<DiskFacts> disk = MeasureDisk(files, "/cache");
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_GT(disk->write_bytes_per_s, 0);
  EXPECT_GT(disk->read_bytes_per_s, 0);
  EXPECT_TRUE(files.Files().empty());
}

TEST(MachineFacts, ADiskThatFailsIsSaidAndLeftAsItWas) {
  using Operation = MemoryFileSystem::Operation;
  for (const Operation failing : {Operation::kCreate, Operation::kAppend, Operation::kSync,
                                  Operation::kOpen, Operation::kRead}) {
    MemoryFileSystem files;
    files.SetFault([&](Operation operation, const auto& /*path*/) -> std::optional<IoError> {
      return operation == failing
                 ? std::optional(IoError{.kind = IoError::Kind::kOther, .message = "it is broken"})
                 : std::nullopt;
    });
    const Result<DiskFacts> disk = MeasureDisk(files, "/cache");
    ASSERT_FALSE(disk);
    EXPECT_EQ(disk.error().message, "The disk of /cache cannot be measured: it is broken.");
    EXPECT_TRUE(files.Files().empty());
  }
}

TEST(MachineFacts, AFullDiskIsNotFilledFurther) {
  MemoryFileSystem files;
  files.SetCapacity(1000);
  const Result<DiskFacts> disk = MeasureDisk(files, "/cache");
  ASSERT_FALSE(disk);
  EXPECT_EQ(disk.error().message, "The disk of /cache cannot be measured: it has 1000 B left.");
}

MachineFacts GoodMachine() {
  MachineFacts facts;
  facts.kernels.instruction_set = ops::InstructionSet::kAvx2;
  facts.kernels.threads = 2;
  facts.cpu.physical_cores = 2;
  facts.memory_bytes = 32 * kGiB;
  facts.available_bytes = 16 * kGiB;
  facts.swapped_bytes = 0;
  facts.load = 0.1;
  facts.large_pages = "madvise";
  facts.governor = "performance";
  facts.speed = {.read_bytes_per_s = 20e9, .int8_ops_per_s = 1e12};
  facts.disk = DiskFacts{.directory = "/cache",
                         .free_bytes = 100 * kGiB,
                         .write_bytes_per_s = 1e9,
                         .read_bytes_per_s = 1e9};
  return facts;
}

TEST(MachineWarnings, AGoodMachineHasNone) { EXPECT_TRUE(Warnings(GoodMachine()).empty()); }

TEST(MachineWarnings, EachFactThatSlowsHasOneThatNamesIt) {
  struct Bad {
    void (*spoil)(MachineFacts& facts);
    std::string named;
  };
  const std::vector<Bad> all = {
      {[](MachineFacts& f) { f.kernels.path = ops::KernelPath::kReference; }, "EMBERBANK_KERNELS"},
      {[](MachineFacts& f) { f.kernels.instruction_set = ops::InstructionSet::kPlain; }, "AVX2"},
      {[](MachineFacts& f) { f.load = 1.5; }, "1.5 processors"},
      {[](MachineFacts& f) { f.kernels.threads = 8; }, "--threads 8"},
      {[](MachineFacts& f) { f.governor = "powersave"; }, "governor powersave"},
      {[](MachineFacts& f) { f.large_pages = "never"; }, "transparent_hugepage"},
      {[](MachineFacts& f) { f.available_bytes = kGiB; }, "Only 1.0 GiB of 32 GiB"},
      {[](MachineFacts& f) { f.swapped_bytes = 2 * kGiB; }, "swapped out"},
      {[](MachineFacts& f) { f.speed.read_bytes_per_s = 2e9; }, "2.0 GB/s"},
      {[](MachineFacts& f) { f.disk->free_bytes = kGiB; }, "only 1.0 GiB left"},
      {[](MachineFacts& f) { f.disk->read_bytes_per_s = 20e6; }, "20 MB/s"},
      {[](MachineFacts& f) { f.disk.reset(), f.disk_problem = "No disk."; }, "No disk."},
  };
  for (const Bad& bad : all) {
    MachineFacts facts = GoodMachine();
    bad.spoil(facts);
    const std::vector<std::string> warnings = Warnings(facts);
    ASSERT_EQ(warnings.size(), 1U) << bad.named;
    EXPECT_NE(warnings[0].find(bad.named), std::string::npos) << warnings[0];
  }
}

}  // namespace
}  // namespace app
