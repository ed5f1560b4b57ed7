#include "scheduler/mask_ahead.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace scheduler {
namespace {

// Takes a while, and says on which thread it was asked.
class Slow final : public TokenConstraint {
 public:
  Result<std::span<const std::uint32_t>> AllowedTokens() override {
    thread = std::this_thread::get_id();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (throws) {
      throw std::runtime_error("no mask");
    }
    bits[0] = ++asked;
    return std::span<const std::uint32_t>(bits);
  }
  Result<void> Accept(TokenId /*token*/) override { return {}; }

  bool throws = false;
  std::atomic<std::uint32_t> asked = 0;
  std::array<std::uint32_t, 1> bits{};
  std::thread::id thread;
};

TEST(MaskAhead, AsksEveryConstraintOnceOnAnotherThread) {
  MaskAhead masks;
  std::array<Slow, 3> constraints;
  for (std::uint32_t step = 1; step <= 3; ++step) {
    masks.Begin({&constraints[0], &constraints[1], &constraints[2]});
    for (std::size_t i : {2U, 0U, 1U}) {  // in any order
      EXPECT_EQ(masks.Wait(constraints.at(i)).value()[0], step);
    }
    masks.Finish();
  }
  EXPECT_NE(constraints[0].thread, std::this_thread::get_id());
}

TEST(MaskAhead, HandsOnWhatAConstraintThrows) {
  MaskAhead masks;
  Slow constraint;
  constraint.throws = true;
  masks.Begin({&constraint});
  EXPECT_THROW((void)masks.Wait(constraint), std::runtime_error);
  masks.Finish();
}

TEST(MaskAhead, FinishWaitsForMasksThatNobodyTook) {
  MaskAhead masks;
  {
    std::array<Slow, 2> constraints;
    masks.Begin({&constraints[0], &constraints[1]});
    masks.Finish();
    EXPECT_EQ(constraints[1].asked, 1U);
  }
  masks.Begin({});
  masks.Finish();
}

}  // namespace
}  // namespace scheduler
