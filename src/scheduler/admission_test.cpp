#include "scheduler/admission.h"

#include <gtest/gtest.h>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

class Admission : public testing::Test {
 protected:
  Sequence& Add(Tokens prompt, Priority priority = Priority::kInteractive) {
    Request request = Greedy(std::move(prompt), 1);
    request.priority = priority;
    waiting_.push_back(std::make_unique<Sequence>(waiting_.size(), std::move(request), 0,
                                                  std::make_shared<TokenStream::Shared>(1),
                                                  clock_.Now()));
    return *waiting_.back();
  }
  void Bank(const Tokens& tokens) {
    cache::Lease lease = cache_->Begin(tokens, "");
    ASSERT_TRUE(cache_->Reserve(lease, static_cast<std::int64_t>(tokens.size())));
    cache_->Commit(lease, tokens);
    cache_->Release(std::move(lease));
  }
  std::vector<const Sequence*> Order() const {
    std::vector<const Sequence*> order;
    for (const Applicant& applicant : OrderApplicants(waiting_, *cache_, clock_.Now())) {
      order.push_back(applicant.sequence);
    }
    return order;
  }
  using Sequences = std::vector<const Sequence*>;

  ManualClock clock_;
  FakeStore store_{{0}, 1 << 20};
  std::unique_ptr<cache::PrefixCache> cache_ = cache::MakeRadixCache(store_);
  std::vector<std::unique_ptr<Sequence>> waiting_;
};

TEST_F(Admission, InteractiveGoesBeforeBackgroundAndArrivalDecidesBetweenEquals) {
  const Sequence& background = Add({1}, Priority::kBackground);
  const Sequence& first = Add({2});
  const Sequence& second = Add({3});
  EXPECT_EQ(Order(), (Sequences{&first, &second, &background}));
}

TEST_F(Admission, TheLongestBankedPrefixGoesFirst) {
  const Tokens banked = MakePrompt(1, 640);
  Bank(banked);
  const Sequence& cold = Add(MakePrompt(2, 640));
  const Sequence& warm = Add(Tokens(banked.begin(), banked.begin() + 200));
  const Sequence& warmest = Add(banked);
  EXPECT_EQ(Order(), (Sequences{&warmest, &warm, &cold}));
}

TEST_F(Admission, WhoHasWaitedLongIsNotPassedByAWarmPrompt) {
  const Tokens banked = MakePrompt(1, 1000);
  Bank(banked);
  const Sequence& cold = Add(MakePrompt(2, 640));
  clock_.now_ms += 1000;
  const Sequence& warm = Add(banked);  // 960 tokens banked are less than a second of waiting
  EXPECT_EQ(Order(), (Sequences{&cold, &warm}));
}

TEST_F(Admission, ABackgroundRequestThatHasWaitedHalfAMinuteCountsAsInteractive) {
  const Sequence& background = Add({1}, Priority::kBackground);
  clock_.now_ms += 29'000;
  const Sequence& interactive = Add({2});
  EXPECT_EQ(Order(), (Sequences{&interactive, &background}));
  clock_.now_ms += 1'000;
  EXPECT_EQ(Order(), (Sequences{&background, &interactive}));
}

TEST_F(Admission, APreemptedSequenceResumesFirst) {
  const Sequence& interactive = Add({2});
  Sequence& preempted = Add({1}, Priority::kBackground);
  preempted.preempted = true;
  EXPECT_EQ(Order(), (Sequences{&preempted, &interactive}));
}

TEST_F(Admission, WaitsForASiblingOnlyWhileThatComputesWhatIsMissing) {
  const Tokens head = MakePrompt(1, 200);
  Sequence& running = Add(head + MakePrompt(2, 300));
  std::vector<std::unique_ptr<Sequence>> all_running;
  all_running.push_back(std::move(waiting_.back()));
  waiting_.pop_back();
  Sequence& applicant = Add(head + MakePrompt(3, 50));
  EXPECT_EQ(ComputesPrefixOf({&applicant, 0}, all_running), &running);
  EXPECT_EQ(ComputesPrefixOf({&applicant, 192}, all_running), nullptr) << "the bank has it all";
  running.computed = 192;
  EXPECT_EQ(ComputesPrefixOf({&applicant, 0}, all_running), nullptr)
      << "it has passed the common part";
  running.computed = 0;
  applicant.request.cache_salt = "other";
  EXPECT_EQ(ComputesPrefixOf({&applicant, 0}, all_running), nullptr) << "another tenant";
  Sequence& stranger = Add(MakePrompt(4, 500));
  EXPECT_EQ(ComputesPrefixOf({&stranger, 0}, all_running), nullptr);
}

}  // namespace
}  // namespace scheduler
