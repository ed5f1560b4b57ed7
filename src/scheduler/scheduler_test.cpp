#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <thread>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

TEST(Scheduler, GivesTheTextOfTheSlowTwinAndItsNumbers) {
  Harness harness({.windows = {0, 32}});
  const Tokens prompt = MakePrompt(1, 700);
  TokenStream stream = harness.Submit(Greedy(prompt, 20));
  const Text text = ReadAll(stream, 1)[0];
  EXPECT_EQ(text.tokens, Alone(prompt, 20, {0, 32}));
  EXPECT_EQ(text.finish, FinishReason::kLength);
  EXPECT_EQ(stream.stats(0).prompt_tokens, 700);
  EXPECT_EQ(stream.stats(0).cached_tokens, 0);
  EXPECT_EQ(stream.stats(0).completion_tokens, 20);
  const SchedulerStats stats = harness.scheduler->stats();
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_EQ(stats.requests_finished, 1U);
  EXPECT_EQ(stats.completion_tokens, 20U);
  EXPECT_EQ(stats.prompt_tokens, 700U);
}

TEST(Scheduler, ARepeatedPromptAndItsReplyComeFromTheBank) {
  Harness harness({.windows = {0, 100}});
  const Tokens prompt = MakePrompt(1, 700);
  const Text first = harness.Run(Greedy(prompt, 100));
  TokenStream again = harness.Submit(Greedy(prompt, 100));
  EXPECT_EQ(ReadAll(again, 1)[0].tokens, first.tokens);
  EXPECT_EQ(again.stats(0).cached_tokens, 640);
  // The next turn: 799 positions were computed (the last token was not), 12 blocks.
  const Tokens next = prompt + first.tokens + MakePrompt(2, 50);
  TokenStream turn = harness.Submit(Greedy(next, 10));
  EXPECT_EQ(ReadAll(turn, 1)[0].tokens, Alone(next, 10, {0, 100}));
  EXPECT_EQ(turn.stats(0).cached_tokens, 768);
}

TEST(Scheduler, SaltsDoNotShare) {
  Harness harness({});
  const Tokens prompt = MakePrompt(1, 300);
  (void)harness.Run(Greedy(prompt, 1));
  Request other = Greedy(prompt, 1);
  other.cache_salt = "other";
  TokenStream stream = harness.Submit(std::move(other));
  (void)ReadAll(stream, 1);
  EXPECT_EQ(stream.stats(0).cached_tokens, 0);
}

TEST(Scheduler, AStopTokenIsReportedWithTheEnd) {
  Harness harness({});
  const Tokens prompt = MakePrompt(3, 10);
  const Tokens alone = Alone(prompt, 50, {0});
  Request request = Greedy(prompt, 50);
  request.stop_token_ids = {alone[4]};
  const auto first = std::find(alone.begin(), alone.end(), alone[4]);
  const Text text = harness.Run(std::move(request));
  EXPECT_EQ(text.finish, FinishReason::kStop);
  EXPECT_EQ(text.tokens, Tokens(alone.begin(), first + 1));
}

TEST(Scheduler, IgnoredStopTokensAreNeverSampled) {
  Harness harness({});
  const Tokens prompt = MakePrompt(3, 10);
  Request request = Greedy(prompt, 50);
  request.ignore_eos = true;
  request.stop_token_ids = {Alone(prompt, 1, {0})[0], 7};
  const Tokens stops = request.stop_token_ids;
  const Text text = harness.Run(std::move(request));
  EXPECT_EQ(text.finish, FinishReason::kLength);
  EXPECT_EQ(text.tokens.size(), 50U);
  for (const TokenId stop : stops) {
    EXPECT_EQ(std::count(text.tokens.begin(), text.tokens.end(), stop), 0);
  }
}

TEST(Scheduler, TheChoicesOfOneRequestShareItsPrompt) {
  Harness harness({.windows = {0, 64}});
  const Tokens prompt = MakePrompt(4, 1000);
  std::vector<Request> requests;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    requests.push_back(
        {.prompt = prompt, .max_tokens = 30, .sampling = {.temperature = 3, .seed = seed}});
  }
  TokenStream stream = harness.Submit(std::move(requests));
  const std::vector<Text> texts = ReadAll(stream, 4);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    EXPECT_EQ(texts[seed].tokens, Alone(prompt, 30, {0, 64}, {.temperature = 3, .seed = seed}));
    EXPECT_EQ(stream.stats(static_cast<int>(seed)).cached_tokens, seed == 0 ? 0 : 960);
  }
  EXPECT_NE(texts[0].tokens, texts[1].tokens);
}

TEST(Scheduler, ARequestWaitsForTheOneThatIsComputingItsPrefix) {
  Harness harness({.options = {.prefill_step_size = 128, .context_length = 100'000}});
  harness.control.Gate();
  const Tokens head = MakePrompt(5, 1024);
  TokenStream first = harness.Submit(Greedy(head + MakePrompt(6, 600), 5));
  harness.control.WaitAtGate();
  TokenStream second = harness.Submit(Greedy(head + MakePrompt(7, 100), 5));
  TokenStream stranger = harness.Submit(Greedy(MakePrompt(8, 100), 5));
  harness.control.Open();
  EXPECT_EQ(ReadAll(second, 1)[0].tokens, Alone(head + MakePrompt(7, 100), 5, {0}));
  EXPECT_EQ(ReadAll(first, 1)[0].tokens, Alone(head + MakePrompt(6, 600), 5, {0}));
  EXPECT_EQ(ReadAll(stranger, 1)[0].tokens, Alone(MakePrompt(8, 100), 5, {0}));
  EXPECT_EQ(second.stats(0).cached_tokens, 1024);
}

// The part of a sequence in a step, or null.
const FakeControl::Part* PartOf(const FakeControl::Step& step, std::uint64_t id) {
  for (const FakeControl::Part& part : step) {
    if (part.sequence_id == id) {
      return &part;
    }
  }
  return nullptr;
}

TEST(Scheduler, ALongPromptDelaysNoDecodingSequenceByAStep) {
  Harness harness({.budget_bytes = 1 << 24});
  harness.control.Gate();
  TokenStream decoding = harness.Submit(Greedy(MakePrompt(1, 10), 60));
  harness.control.Permit(3);
  harness.control.WaitAtGate();
  const std::uint64_t id = harness.control.TakeSteps().at(0).at(0).sequence_id;
  TokenStream prefilling = harness.Submit(Greedy(MakePrompt(2, 8000), 2));
  harness.control.Open();
  EXPECT_EQ(ReadAll(decoding, 1)[0].tokens.size(), 60U);
  EXPECT_EQ(ReadAll(prefilling, 1)[0].tokens, Alone(MakePrompt(2, 8000), 2, {0}));
  std::size_t shared_steps = 0;
  std::size_t decoded = 3;
  for (const FakeControl::Step& step : harness.control.TakeSteps()) {
    std::size_t total = 0;
    for (const FakeControl::Part& part : step) {
      total += part.n_tokens;
    }
    EXPECT_LE(total, 512U);
    decoded += PartOf(step, id) != nullptr ? 1 : 0;
    shared_steps += step.size() > 1 ? 1 : 0;
    EXPECT_TRUE(decoded == 60 || PartOf(step, id) != nullptr)
        << "a step without the decoding sequence";
  }
  EXPECT_GE(shared_steps, 15U);
}

TEST(Scheduler, AShortPromptIsNotStuckBehindALongOneAndTwoLongOnesShare) {
  Harness harness({.budget_bytes = 1 << 24});
  harness.control.Gate();
  TokenStream a = harness.Submit(Greedy(MakePrompt(1, 5120), 1));
  harness.control.WaitAtGate();
  TokenStream b = harness.Submit(Greedy(MakePrompt(2, 5120), 1));
  TokenStream c = harness.Submit(Greedy(MakePrompt(3, 100), 1));
  harness.control.Open();
  (void)ReadAll(a, 1);
  (void)ReadAll(b, 1);
  (void)ReadAll(c, 1);
  const std::vector<FakeControl::Step> steps = harness.control.TakeSteps();
  EXPECT_LE(steps.size(), 23U) << "10 full steps each, and little more";
  std::map<std::int64_t, std::size_t>
      end_step;  // by length of the prompt's last chunk's end and id
  std::map<std::uint64_t, std::size_t> last_step;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    for (const FakeControl::Part& part : steps[i]) {
      last_step[part.sequence_id] = i;
    }
  }
  std::vector<std::size_t> ends;
  for (const auto& [id, step] : last_step) {
    ends.push_back(step);
  }
  ASSERT_EQ(ends.size(), 3U);
  EXPECT_LE(ends[2], 2U) << "the short one is done in the step after its arrival";
  EXPECT_GE(ends[0], 15U) << "the first long one shares with the second";
  EXPECT_GE(ends[1], 15U);
}

TEST(Scheduler, CancellingEndsASequenceWithinAStep) {
  Harness harness({});
  harness.control.Gate();
  TokenStream stream = harness.Submit(Greedy(MakePrompt(1, 10), 1000));
  harness.control.Permit(3);
  harness.control.WaitAtGate();  // the fourth step has begun
  stream.Cancel();
  harness.control.Permit(1);
  const Text text = ReadAll(stream, 1)[0];
  EXPECT_EQ(text.finish, FinishReason::kCancelled);
  EXPECT_EQ(text.tokens.size(), 3U);
  EXPECT_EQ(harness.scheduler->stats().requests_cancelled, 1U);
  EXPECT_EQ(harness.scheduler->stats().requests_cancelled_in_queue, 0U);
  harness.control.Open();
}

TEST(Scheduler, OneChoiceCanBeCancelledAndTheOtherGoesOn) {
  Harness harness({});
  harness.control.Gate();
  std::vector<Request> requests;
  requests.push_back(Greedy(MakePrompt(1, 10), 40));
  requests.push_back(Greedy(MakePrompt(1, 10), 40));
  TokenStream stream = harness.Submit(std::move(requests));
  harness.control.Permit(3);
  harness.control.WaitAtGate();
  stream.Cancel(0);
  harness.control.Open();
  const std::vector<Text> texts = ReadAll(stream, 2);
  EXPECT_EQ(texts[0].finish, FinishReason::kCancelled);
  EXPECT_EQ(texts[1].finish, FinishReason::kLength);
  EXPECT_EQ(texts[1].tokens, Alone(MakePrompt(1, 10), 40, {0}));
}

TEST(Scheduler, ACancelledWaitingRequestIsNeverComputedAndCounted) {
  Harness harness({.options = {.max_num_seqs = 1, .context_length = 10'000}});
  harness.control.Gate();
  TokenStream running = harness.Submit(Greedy(MakePrompt(1, 10), 5));
  harness.control.WaitAtGate();
  {
    TokenStream left = harness.Submit(Greedy(MakePrompt(2, 10), 5));  // destroyed: cancelled
  }
  TokenStream next = harness.Submit(Greedy(MakePrompt(3, 10), 5));
  harness.control.Open();
  EXPECT_EQ(ReadAll(running, 1)[0].tokens.size(), 5U);
  EXPECT_EQ(ReadAll(next, 1)[0].tokens, Alone(MakePrompt(3, 10), 5, {0}));
  EXPECT_EQ(harness.scheduler->stats().requests_cancelled_in_queue, 1U);
  std::size_t rows = 0;
  for (const FakeControl::Step& step : harness.control.TakeSteps()) {
    rows += step.size();
  }
  EXPECT_EQ(rows, 10U);
}

TEST(Scheduler, AFullQueueRefusesAtOnce) {
  Harness harness({.options = {.max_num_seqs = 1, .max_queue = 2, .context_length = 10'000}});
  harness.control.Gate();
  std::vector<TokenStream> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(harness.Submit(Greedy(MakePrompt(1, 10), 5)));
  }
  const auto refused = harness.TrySubmit(Greedy(MakePrompt(1, 10), 5));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOverloaded);
  EXPECT_EQ(harness.scheduler->stats().requests_refused, 1U);
  harness.control.Open();
  for (TokenStream& stream : streams) {
    EXPECT_EQ(ReadAll(stream, 1)[0].tokens.size(), 5U);
  }
  EXPECT_TRUE(harness.TrySubmit(Greedy(MakePrompt(1, 10), 5)));
}

TEST(Scheduler, RequestsThatCannotBeServedAreRefusedWithTheirNumbers) {
  Harness harness(
      {.windows = {0, 32}, .budget_bytes = 20'000, .options = {.context_length = 5000}});
  const auto code = [&](Request request) {
    const auto refused = harness.TrySubmit(std::move(request));
    EXPECT_FALSE(refused);
    return refused ? ErrorCode::kInternal : refused.error().code;
  };
  EXPECT_EQ(code(Greedy({}, 5)), ErrorCode::kInvalidRequest);
  EXPECT_EQ(code(Greedy({1}, 0)), ErrorCode::kInvalidRequest);
  EXPECT_EQ(code(Greedy({kFakeVocab}, 5)), ErrorCode::kInvalidRequest);
  EXPECT_EQ(code(Greedy({-1}, 5)), ErrorCode::kInvalidRequest);
  EXPECT_EQ(code(Greedy(MakePrompt(1, 4990), 11)), ErrorCode::kContextLengthExceeded);
  EXPECT_FALSE(harness.scheduler->Submit({}));
  // 18 blocks of the full group and two of the window group: 1152 tokens.
  const auto refused = harness.TrySubmit(Greedy(MakePrompt(1, 1152), 1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(refused.error().message.find("1152 tokens"), std::string::npos)
      << refused.error().message;
  // What is promised is kept, though chunks would like more blocks of the window group.
  const Text text = harness.Run(Greedy(MakePrompt(1, 1150), 2));
  EXPECT_EQ(text.tokens, Alone(MakePrompt(1, 1150), 2, {0, 32}));
}

TEST(Scheduler, AFailedStepEndsItsSequencesAndTheNextRequestIsServed) {
  Harness harness({});
  int step = 0;
  harness.control.failure = [&](const auto&) -> std::optional<Error> {
    return ++step == 3 ? std::optional(Error{ErrorCode::kInternal, "The engine failed.", ""})
                       : std::nullopt;
  };
  const Text text = harness.Run(Greedy(MakePrompt(1, 10), 10));
  ASSERT_TRUE(text.error);
  EXPECT_EQ(text.error->code, ErrorCode::kInternal);
  EXPECT_FALSE(text.finish);
  EXPECT_EQ(text.tokens.size(), 2U);
  EXPECT_EQ(harness.Run(Greedy(MakePrompt(1, 200), 10)).tokens, Alone(MakePrompt(1, 200), 10, {0}));
  EXPECT_EQ(harness.scheduler->stats().requests_failed, 1U);
}

// Allows one token only; fails at the n-th call of either function.
class OneToken final : public TokenConstraint {
 public:
  OneToken(TokenId token, int mask_failure, int accept_failure)
      : mask_failure_(mask_failure), accept_failure_(accept_failure) {
    bits_[static_cast<std::size_t>(token) / 32] = 1U << (token % 32);
  }
  Result<std::span<const std::uint32_t>> AllowedTokens() override {
    if (--mask_failure_ == 0) {
      return Fail(ErrorCode::kInvalidRequest, "no mask");
    }
    return std::span<const std::uint32_t>(bits_);
  }
  Result<void> Accept(TokenId) override {
    if (--accept_failure_ == 0) {
      return Fail(ErrorCode::kInvalidRequest, "not accepted");
    }
    return {};
  }

 private:
  std::array<std::uint32_t, 2> bits_{};
  int mask_failure_;
  int accept_failure_;
};

TEST(Scheduler, AConstraintBindsItsSequenceOnlyAndItsFailureEndsIt) {
  Harness harness({});
  const Tokens prompt = MakePrompt(1, 10);
  const auto constrained = [&](int mask_failure, int accept_failure) {
    Request request = Greedy(prompt, 6);
    request.constraint = std::make_unique<OneToken>(33, mask_failure, accept_failure);
    return request;
  };
  TokenStream free = harness.Submit(Greedy(prompt, 30));
  EXPECT_EQ(harness.Run(constrained(0, 0)).tokens, Tokens(6, 33));
  const Text no_mask = harness.Run(constrained(3, 0));
  EXPECT_EQ(no_mask.tokens.size(), 2U);
  EXPECT_EQ(no_mask.error.value_or(Error{}).message, "no mask");
  const Text not_accepted = harness.Run(constrained(0, 2));
  EXPECT_EQ(not_accepted.tokens.size(), 1U);
  EXPECT_EQ(not_accepted.error.value_or(Error{}).message, "not accepted");
  // Only the stop token is allowed: it comes though it is to be ignored, and ends the text.
  Request contradiction = constrained(0, 0);
  contradiction.stop_token_ids = {33};
  contradiction.ignore_eos = true;
  const Text stopped = harness.Run(std::move(contradiction));
  EXPECT_EQ(stopped.finish, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens, Tokens{33});
  EXPECT_EQ(ReadAll(free, 1)[0].tokens, Alone(prompt, 30, {0}));
}

// As a library would when memory is short.
class Throwing final : public TokenConstraint {
 public:
  Result<std::span<const std::uint32_t>> AllowedTokens() override { throw std::bad_alloc(); }
  Result<void> Accept(TokenId) override { return {}; }
};

TEST(Scheduler, AnExceptionEndsTheRunningSequencesButNotTheThread) {
  Harness harness({});
  Request request = Greedy(MakePrompt(1, 10), 6);
  request.constraint = std::make_unique<Throwing>();
  const Text failed = harness.Run(std::move(request));
  EXPECT_EQ(failed.error.value_or(Error{}).code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(harness.Run(Greedy(MakePrompt(2, 10), 20)).tokens, Alone(MakePrompt(2, 10), 20, {0}));
}

// Fails on every thread but the one that made it.
class FailingClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override {
    if (std::this_thread::get_id() != owner_) {
      throw std::bad_alloc();
    }
    return {};
  }

 private:
  std::thread::id owner_ = std::this_thread::get_id();
};

TEST(Scheduler, AnExceptionBeforeAnySequenceRunsEndsTheWaitingOnes) {
  FailingClock clock;
  FakeControl control;
  auto scheduler = Scheduler::Start(
      {.context_length = 1000}, clock, [&](const Scheduler::Wake&) -> Result<Scheduler::Parts> {
        Scheduler::Parts parts;
        parts.engine = std::make_unique<FakeEngine>(control, std::vector<int>{0}, 1 << 20);
        parts.cache = cache::MakeRadixCache(parts.engine->blocks());
        return parts;
      });
  ASSERT_TRUE(scheduler);
  std::vector<Request> requests;
  requests.push_back(Greedy(MakePrompt(1, 10), 1));
  Result<TokenStream> stream = (*scheduler)->Submit(std::move(requests));
  ASSERT_TRUE(stream);
  const std::optional<TokenEvent> event = stream->Next(std::chrono::seconds(10));
  ASSERT_TRUE(event && event->error);
  EXPECT_EQ(event->error->code, ErrorCode::kOutOfMemory);
}

TEST(Scheduler, OptionsWithWhichNoStepCouldBePlannedAreRefused) {
  const ManualClock clock;
  for (const SchedulerOptions& options :
       {SchedulerOptions{.max_num_seqs = 0}, SchedulerOptions{.prefill_step_size = 0},
        SchedulerOptions{.max_queue = -1}}) {
    const auto started =
        Scheduler::Start(options, clock, [](const Scheduler::Wake&) -> Result<Scheduler::Parts> {
          throw std::runtime_error("not asked");
        });
    ASSERT_FALSE(started.has_value());
    EXPECT_EQ(started.error().code, ErrorCode::kInvalidRequest);
  }
}

TEST(Scheduler, AnExceptionWhileLoadingIsAnError) {
  const ManualClock clock;
  const auto started = Scheduler::Start(
      {}, clock,
      [](const Scheduler::Wake&) -> Result<Scheduler::Parts> { throw std::runtime_error("no"); });
  ASSERT_FALSE(started.has_value());
  EXPECT_EQ(started.error().code, ErrorCode::kInternal);
}

TEST(Scheduler, DrainLetsRunningOnesFinishAndRefusesNewOnes) {
  Harness harness({});
  harness.control.Gate();
  TokenStream stream = harness.Submit(Greedy(MakePrompt(1, 10), 20));
  harness.control.WaitAtGate();
  std::thread drain([&] { harness.scheduler->Drain(Clock::TimePoint::max()); });
  ErrorCode code = ErrorCode::kInternal;
  while (code != ErrorCode::kShuttingDown) {
    const auto refused = harness.TrySubmit(Greedy(MakePrompt(2, 10), 1));
    code = refused ? code : refused.error().code;
  }
  harness.control.Open();
  drain.join();
  const Text text = ReadAll(stream, 1)[0];
  EXPECT_EQ(text.finish, FinishReason::kLength);
  EXPECT_EQ(text.tokens.size(), 20U);
}

TEST(Scheduler, DrainCancelsWhatRunsAtTheDeadline) {
  Harness harness({.budget_bytes = 1 << 22});
  harness.control.on_step = [&] { ++harness.clock.now_ms; };
  TokenStream stream = harness.Submit(Greedy(MakePrompt(1, 10), 99'000));
  harness.scheduler->Drain(harness.clock.Now() + std::chrono::milliseconds(50));
  const Text text = ReadAll(stream, 1)[0];
  EXPECT_EQ(text.finish, FinishReason::kCancelled);
}

TEST(Scheduler, ItsEndCancelsEverythingAndStreamsOutliveIt) {
  Harness harness(
      {.budget_bytes = 1 << 22, .options = {.max_num_seqs = 1, .context_length = 100'000}});
  TokenStream running = harness.Submit(Greedy(MakePrompt(1, 10), 99'000));
  TokenStream waiting = harness.Submit(Greedy(MakePrompt(1, 10), 99'000));
  ASSERT_TRUE(running.Next(std::chrono::seconds(10)));
  harness.scheduler.reset();
  EXPECT_EQ(ReadAll(running, 1)[0].finish, FinishReason::kCancelled);
  EXPECT_EQ(ReadAll(waiting, 1)[0].finish, FinishReason::kCancelled);
  running.Cancel();
}

TEST(Scheduler, TimesAreThoseOfTheClock) {
  Harness harness(
      {.options = {.max_num_seqs = 1, .prefill_step_size = 64, .context_length = 10'000}});
  harness.control.on_step = [&] { harness.clock.now_ms += 10; };
  harness.control.Gate();
  TokenStream first = harness.Submit(Greedy(MakePrompt(1, 10), 3));
  harness.control.WaitAtGate();
  TokenStream second = harness.Submit(Greedy(MakePrompt(2, 128), 3));
  harness.control.Open();
  (void)ReadAll(first, 1);
  (void)ReadAll(second, 1);
  EXPECT_DOUBLE_EQ(first.stats(0).queue_ms, 0);
  EXPECT_DOUBLE_EQ(first.stats(0).prompt_ms, 10);
  EXPECT_DOUBLE_EQ(first.stats(0).predicted_ms, 20);
  EXPECT_DOUBLE_EQ(second.stats(0).queue_ms, 20);  // submitted within the first's first step
  EXPECT_DOUBLE_EQ(second.stats(0).prompt_ms, 20);
  EXPECT_DOUBLE_EQ(second.stats(0).predicted_ms, 20);
}

TEST(Scheduler, AFailedStartReturnsItsError) {
  const SystemClock clock;
  const auto started =
      Scheduler::Start({}, clock, [](const Scheduler::Wake&) -> Result<Scheduler::Parts> {
        return Fail(ErrorCode::kBadModel, "The model is damaged.");
      });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().message, "The model is damaged.");
}

TEST(Scheduler, KnowsTheFactsOfItsEngine) {
  Harness harness({.windows = {0, 32}, .budget_bytes = 50'000});
  const Scheduler::EngineFacts& facts = harness.scheduler->facts();
  EXPECT_EQ(facts.vocab_size, kFakeVocab);
  EXPECT_EQ(facts.weight_bytes, 123U);
  EXPECT_EQ(facts.kv_budget_bytes, 50'000U);
  EXPECT_EQ(facts.kv_block_bytes, 1700U);
  EXPECT_EQ(facts.fingerprint, "fake");
}

}  // namespace
}  // namespace scheduler
