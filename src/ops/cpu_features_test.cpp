#include "ops/cpu_features.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "ops/cpu_probe.h"

namespace ops {
namespace {

TEST(CpuFeatures, ProbingAgainGivesTheSameAndRestoresTheSignalHandlers) {
  struct sigaction mine = {};
  mine.sa_handler = [](int) {};
  struct sigaction before = {};
  sigaction(SIGILL, &mine, &before);
  const CpuFeatures probed = ProbeInstructionSets();
  struct sigaction after = {};
  sigaction(SIGILL, &before, &after);
  EXPECT_EQ(after.sa_handler, mine.sa_handler);
  EXPECT_EQ(probed.avx2, DetectCpu().avx2);
  EXPECT_EQ(probed.avx512_vnni, DetectCpu().avx512_vnni);
  EXPECT_EQ(probed.amx_int8, DetectCpu().amx_int8);
}

TEST(CpuFeatures, AtLeastOneCoreAndNoMoreThanThereAreMayBeUsed) {
  EXPECT_GE(DetectCpu().physical_cores, 1);
  EXPECT_LE(DetectCpu().physical_cores, static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(CpuFeatures, TheEnvironmentLowersTheInstructionSetAndNeverRaisesIt) {
  const char* before = std::getenv("EMBERBANK_ISA");
  const std::string saved = before != nullptr ? before : "";
  unsetenv("EMBERBANK_ISA");
  const InstructionSet best = BestInstructionSet();
  setenv("EMBERBANK_ISA", "plain", 1);
  EXPECT_EQ(BestInstructionSet(), InstructionSet::kPlain);
  setenv("EMBERBANK_ISA", "avx2", 1);
  EXPECT_LE(BestInstructionSet(), best);
  EXPECT_EQ(BestInstructionSet() == InstructionSet::kAvx2, DetectCpu().avx2);
  setenv("EMBERBANK_ISA", "avx512", 1);
  EXPECT_EQ(BestInstructionSet(), best);
  before != nullptr ? setenv("EMBERBANK_ISA", saved.c_str(), 1) : unsetenv("EMBERBANK_ISA");
}

}  // namespace
}  // namespace ops
