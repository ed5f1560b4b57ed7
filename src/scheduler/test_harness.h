#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file_system.h"
#include "scheduler/fake_engine.h"
#include "scheduler/scheduler.h"

namespace scheduler {

using Tokens = std::vector<TokenId>;

class ManualClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::milliseconds(now_ms.load())); }
  std::atomic<std::int64_t> now_ms{1'000'000};
};

// All that came of one sequence.
struct Text {
  Tokens tokens;
  std::vector<engine::SampledToken> sampled;
  std::optional<FinishReason> finish;
  std::optional<Error> error;
};

inline std::vector<Text> ReadAll(TokenStream& stream, std::size_t n) {
  std::vector<Text> texts(n);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!stream.finished()) {
    const std::optional<TokenEvent> event = stream.Next(std::chrono::milliseconds(1000));
    if (!event) {
      if (std::chrono::steady_clock::now() > deadline) {
        ADD_FAILURE() << "the stream never ends";
        return texts;
      }
      continue;
    }
    Text& text = texts.at(static_cast<std::size_t>(event->sequence));
    EXPECT_FALSE(text.finish || text.error) << "an event after the last";
    if (event->token) {
      text.tokens.push_back(event->token->token);
      text.sampled.push_back(*event->token);
    }
    text.finish = event->finish;
    text.error = event->error;
  }
  return texts;
}

inline Tokens MakePrompt(std::uint64_t seed, std::size_t n) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<TokenId>(FakeMix(seed, i) % kFakeVocab);
  }
  return tokens;
}

inline Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline Request Greedy(Tokens prompt, int max_tokens) {
  return {.prompt = std::move(prompt), .max_tokens = max_tokens, .sampling = {.temperature = 0}};
}

// The slow twin of the whole scheduler: one token after the other, from the tokens alone.
inline Tokens Alone(Tokens tokens, int max_tokens, const std::vector<int>& windows,
                    const engine::SamplingParams& sampling = {.temperature = 0}) {
  engine::Sampler sampler(sampling, tokens);
  Tokens reply;
  for (int i = 0; i < max_tokens; ++i) {
    std::vector<float> logits = TwinLogits(tokens, windows);
    reply.push_back(sampler.Sample(logits, {}, {}).token);
    tokens.push_back(reply.back());
  }
  return reply;
}

// A scheduler on a fake engine.
struct Harness {
  struct Setup {
    std::vector<int> windows = {0};
    std::uint64_t budget_bytes = 1 << 20;
    SchedulerOptions options = {.context_length = 100'000};
    bool naive = false;
    FileSystem* files = nullptr;  // of a disk tier
    std::uint64_t disk_budget_bytes = 10 << 20;
  };

  explicit Harness(Setup given) : setup(std::move(given)) {
    auto started = Scheduler::Start(
        setup.options, clock, [this](const Scheduler::Wake& wake) -> Result<Scheduler::Parts> {
          Scheduler::Parts parts;
          parts.engine = std::make_unique<FakeEngine>(control, setup.windows, setup.budget_bytes);
          parts.cache = MakeCache(parts.engine->blocks(), wake);
          return parts;
        });
    scheduler = std::move(started.value());
  }
  ~Harness() {
    control.Open();
    scheduler.reset();
    for (const std::string& violation : control.violations) {
      ADD_FAILURE() << violation;
    }
  }
  Harness(const Harness&) = delete;
  Harness& operator=(const Harness&) = delete;

  TokenStream Submit(std::vector<Request> requests) {
    auto stream = scheduler->Submit(std::move(requests));
    if (!stream) {
      ADD_FAILURE() << stream.error().message;
    }
    return std::move(stream.value());
  }
  TokenStream Submit(Request request) {
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    return Submit(std::move(requests));
  }
  Result<TokenStream> TrySubmit(Request request) {
    std::vector<Request> requests;
    requests.push_back(std::move(request));
    return scheduler->Submit(std::move(requests));
  }
  Text Run(Request request) {
    TokenStream stream = Submit(std::move(request));
    return ReadAll(stream, 1).at(0);
  }

  std::unique_ptr<cache::PrefixCache> MakeCache(ops::BlockStore& blocks,
                                                const Scheduler::Wake& wake) const {
    if (setup.files == nullptr) {
      return setup.naive ? cache::MakeNaiveCache(blocks) : cache::MakeRadixCache(blocks);
    }
    return cache::MakeRadixCache(blocks,
                                 {.directory = "/cache",
                                  .budget_bytes = setup.disk_budget_bytes,
                                  .fingerprint = std::string(64, 'f'),
                                  .group_bytes = {},
                                  .model_name = "fake"},
                                 *setup.files, clock, wake);
  }

  Setup setup;
  FakeControl control;
  ManualClock clock;
  std::unique_ptr<Scheduler> scheduler;
};

}  // namespace scheduler
