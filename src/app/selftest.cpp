#include "app/selftest.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/clock.h"
#include "cache/prefix_cache.h"
#include "scheduler/scheduler.h"

namespace app {
namespace {

using Tokens = std::vector<TokenId>;
using SchedulerPtr = std::unique_ptr<scheduler::Scheduler>;

constexpr int kTalks = 3;
constexpr int kTurns = 3;
constexpr int kLongestTurn = 150;
constexpr int kTopLogprobs = 20;
constexpr std::int64_t kContext = 1 << 20U;

// What a prompt gave.
struct Answer {
  std::vector<engine::SampledToken> tokens;
  bool cancelled = false;
  scheduler::RequestStats stats;
};

bool SameBits(const Answer& a, const Answer& b) {
  const auto same_top = [](const engine::TokenLogprob& x, const engine::TokenLogprob& y) {
    return x.token == y.token && x.logprob == y.logprob;
  };
  return std::ranges::equal(a.tokens, b.tokens,
                            [&](const engine::SampledToken& x, const engine::SampledToken& y) {
                              return x.token == y.token && x.logprob == y.logprob &&
                                     std::ranges::equal(x.top_logprobs, y.top_logprobs, same_top);
                            });
}

std::vector<scheduler::Request> Greedy(const Tokens& prompt, int reply_tokens) {
  std::vector<scheduler::Request> requests(1);
  requests[0].prompt = prompt;
  requests[0].max_tokens = reply_tokens;
  requests[0].sampling.temperature = 0;
  requests[0].sampling.logprobs = true;
  requests[0].sampling.top_logprobs = kTopLogprobs;
  return requests;
}

Result<Answer> Read(scheduler::TokenStream& stream) {
  Answer answer;
  while (!stream.finished()) {
    std::optional<scheduler::TokenEvent> event = stream.Next(std::chrono::seconds(1));
    if (!event) {
      continue;
    }
    if (event->error) {
      return Fail(*event->error);
    }
    if (event->token) {
      answer.tokens.push_back(std::move(*event->token));
    }
    answer.cancelled = event->finish == scheduler::FinishReason::kCancelled;
  }
  answer.stats = stream.stats(0);
  return answer;
}

class Selftest {
 public:
  Selftest(const LoadEngine& load, FileSystem& files, const SelftestPlan& plan)
      : load_(load), files_(files), plan_(plan), random_(plan.seed) {}

  Result<SelftestReport> Run() {
    if (Result<void> judged = Judge(); !judged) {
      return Fail(judged.error());
    }
    for (int life = 0; life < plan_.lives; ++life) {
      if (Result<void> lived = Live(life); !lived) {
        return Fail(lived.error());
      }
    }
    return std::move(report_);
  }

 private:
  std::size_t Pick(std::size_t n) { return random_() % n; }

  void Say(const std::string& line) const {
    if (plan_.on_progress) {
      plan_.on_progress(line);
    }
  }

  Tokens RandomText(std::size_t n, int vocab_size) {
    Tokens text(n);
    std::ranges::generate(
        text, [&] { return static_cast<TokenId>(Pick(static_cast<std::size_t>(vocab_size))); });
    return text;
  }

  // Each prompt alone, without a bank: what all later answers are held against.
  Result<void> Judge() {
    const Result<SchedulerPtr> alone = Start(/*kv_bytes=*/0, /*with_bank=*/false, 1);
    if (!alone) {
      return Fail(alone.error());
    }
    const int vocab_size = (*alone)->facts().vocab_size;
    const Tokens head = RandomText(static_cast<std::size_t>(plan_.head_tokens), vocab_size);
    for (int talk = 0; talk < kTalks; ++talk) {
      Tokens prompt = head;
      for (int turn = 0; turn < kTurns; ++turn) {
        Tokens before = prompt;
        for (const bool is_branch : {true, false}) {  // another last turn, then the one that stays
          prompt = before;
          const Tokens text = RandomText(1 + Pick(kLongestTurn), vocab_size);
          prompt.insert(prompt.end(), text.begin(), text.end());
          Result<Answer> answer = Ask(**alone, prompt);
          if (!answer) {
            return Fail(answer.error());
          }
          if (!is_branch) {
            before = prompt;
          }
          longest_ =
              std::max(longest_, prompt.size() + static_cast<std::size_t>(plan_.reply_tokens));
          judged_.emplace_back(prompt, std::move(*answer));
        }
        for (const engine::SampledToken& token : judged_.back().second.tokens) {
          prompt.push_back(token.token);
        }
      }
      Say(fmt::format("computed alone: talk {} of {}", talk + 1, kTalks));
    }
    block_bytes_ = (*alone)->facts().kv_block_bytes;
    return {};
  }

  Result<SchedulerPtr> Start(std::uint64_t kv_bytes, bool with_bank, int max_num_seqs) {
    return scheduler::Scheduler::Start(
        {.max_num_seqs = max_num_seqs,
         .prefill_step_size = 1 + static_cast<int>(Pick(300)),
         .context_length = kContext},
        clock_,
        [&, kv_bytes,
         with_bank](const scheduler::Scheduler::Wake& wake) -> Result<scheduler::Scheduler::Parts> {
          Result<std::unique_ptr<engine::Engine>> engine = load_(kv_bytes);
          if (!engine) {
            return Fail(engine.error());
          }
          scheduler::Scheduler::Parts parts;
          parts.engine = std::move(*engine);
          parts.cache = with_bank ? MakeBank(*parts.engine, wake)
                                  : cache::MakeNaiveCache(parts.engine->blocks());
          return parts;
        });
  }

  std::unique_ptr<cache::PrefixCache> MakeBank(engine::Engine& engine,
                                               const scheduler::Scheduler::Wake& wake) {
    cache::SsdOptions disk;
    disk.directory = plan_.directory;
    disk.budget_bytes = std::uint64_t{1} << 40U;
    disk.fingerprint = engine.fingerprint();
    disk.model_name = "selftest";
    return cache::MakeRadixCache(engine.blocks(), {.disk = std::move(disk)}, files_, clock_, wake);
  }

  Result<Answer> Ask(scheduler::Scheduler& scheduler, const Tokens& prompt) const {
    Result<scheduler::TokenStream> stream = scheduler.Submit(Greedy(prompt, plan_.reply_tokens));
    if (!stream) {
      return Fail(stream.error());
    }
    return Read(*stream);
  }

  // One life of a server: requests in random company, then its end.
  Result<void> Live(int life) {
    const std::uint64_t longest_blocks = longest_ / ops::kBlockTokens + 2;
    const std::uint64_t kv_bytes = block_bytes_ * longest_blocks * (2 + Pick(3)) / 2;
    const Result<SchedulerPtr> scheduler = Start(kv_bytes, /*with_bank=*/true, 4);
    if (!scheduler) {
      return Fail(scheduler.error());
    }
    for (int done = 0; done < plan_.requests;) {
      std::vector<std::pair<std::size_t, scheduler::TokenStream>> together;
      for (std::size_t n = 1 + Pick(4); n > 0; --n, ++done) {
        const std::size_t which = Pick(judged_.size());
        std::vector<scheduler::Request> requests = Greedy(judged_[which].first, plan_.reply_tokens);
        requests[0].boundaries = {static_cast<std::int64_t>(Pick(requests[0].prompt.size()))};
        Result<scheduler::TokenStream> stream = (*scheduler)->Submit(std::move(requests));
        if (!stream) {
          return Fail(stream.error());
        }
        together.emplace_back(which, std::move(*stream));
      }
      if (Pick(3) == 0) {
        together[Pick(together.size())].second.Cancel();
      }
      for (auto& [which, stream] : together) {
        if (Result<void> read = Compare(life, which, stream); !read) {
          return read;
        }
      }
      if (Pick(4) == 0) {
        (*scheduler)->ClearCache({.memory = true});
      }
    }
    report_.evicted_blocks += (*scheduler)->stats().cache.evicted_blocks;
    Say(fmt::format("life {} of {}: {} answers compared, {} tokens from memory, {} from disk",
                    life + 1, plan_.lives, report_.compared, report_.memory_tokens,
                    report_.disk_tokens));
    return {};
  }

  Result<void> Compare(int life, std::size_t which, scheduler::TokenStream& stream) {
    const Result<Answer> answer = Read(stream);
    if (!answer) {
      return Fail(answer.error());
    }
    if (answer->cancelled) {
      ++report_.cancelled;
      return {};
    }
    ++report_.compared;
    const auto disk = static_cast<std::uint64_t>(answer->stats.disk_tokens);
    const auto cached = static_cast<std::uint64_t>(answer->stats.cached_tokens);
    report_.disk_tokens += disk;
    report_.memory_tokens += cached - disk;
    report_.computed_tokens += static_cast<std::uint64_t>(answer->stats.prompt_tokens) - cached;
    if (!SameBits(*answer, judged_[which].second)) {
      report_.differences.push_back(
          fmt::format("life {}, prompt {} of {} tokens: {} from memory, {} from disk", life + 1,
                      which, answer->stats.prompt_tokens, cached - disk, disk));
    }
    return {};
  }

  const LoadEngine& load_;
  FileSystem& files_;
  const SelftestPlan& plan_;
  std::mt19937 random_;
  SystemClock clock_;
  std::vector<std::pair<Tokens, Answer>> judged_;
  std::size_t longest_ = 0;  // prompt and reply
  std::uint64_t block_bytes_ = 0;
  SelftestReport report_;
};

}  // namespace

Result<SelftestReport> RunSelftest(const LoadEngine& load, FileSystem& files,
                                   const SelftestPlan& plan) {
  return Selftest(load, files, plan).Run();
}

}  // namespace app
