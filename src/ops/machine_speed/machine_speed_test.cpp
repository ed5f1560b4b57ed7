#include "ops/machine_speed/machine_speed.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "ops/machine_speed/kernels.h"
#include "ops/test_sets.h"

namespace ops {
namespace {

using ops::testing::PresentSets;

TEST(MachineSpeed, ReadsEveryByte) {
  alignas(64) std::array<std::byte, 2048> data = {};
  for (const InstructionSet set : PresentSets()) {
    const SpeedKernels& kernels = SpeedKernelsFor(set);
    const std::uint64_t before = kernels.read(data.data(), data.size());
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = std::byte{1};
      EXPECT_NE(kernels.read(data.data(), data.size()), before) << Name(set) << " byte " << i;
      data[i] = std::byte{0};
    }
  }
}

TEST(MachineSpeed, MultipliesAsOftenAsItSays) {
  ASSERT_EQ(kPlainSpeedKernels.multiply(0), 0);
  for (const InstructionSet set : PresentSets()) {
    if (set == InstructionSet::kPlain) {
      continue;
    }
    // Each lane adds four products of 3 and 5 in each of the sums.
    const SpeedKernels& kernels = SpeedKernelsFor(set);
    const int lanes = set == InstructionSet::kNeon ? 4 : (set == InstructionSet::kAvx2 ? 8 : 16);
    EXPECT_EQ(kernels.multiply(7), 7 * 15 * kernels.products_a_round / lanes) << Name(set);
  }
}

TEST(MachineSpeed, FindsASpeedThatAMachineCanHave) {
  ThreadPool pool(2);
  for (const InstructionSet set : PresentSets()) {
    const MachineSpeed speed = MeasureMachine(pool, set);
    EXPECT_GT(speed.read_bytes_per_s, 1e8) << Name(set);
    EXPECT_LT(speed.read_bytes_per_s, 1e13) << Name(set);
    EXPECT_GT(speed.int8_ops_per_s, 1e8) << Name(set);
    EXPECT_LT(speed.int8_ops_per_s, 1e15) << Name(set);
  }
}

}  // namespace
}  // namespace ops
