#include "scheduler/scheduler.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <future>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "scheduler/engine_loop.h"
#include "scheduler/kv_need.h"
#include "scheduler/sequence.h"

namespace scheduler {
namespace {

// One numbering for all schedulers: sequence ids are unique in the process.
std::uint64_t NextSequenceId() {
  static std::atomic<std::uint64_t> next{1};
  return next++;
}

// The engine thread's net: what libraries throw (bad_alloc above all) must not end the process.
template <class Function>
std::invoke_result_t<Function> Guarded(std::string_view doing, const Function& function) {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kOutOfMemory,
                fmt::format("The system has no memory left for {}.", doing));
  } catch (const std::exception& e) {
    spdlog::error("{} failed: {}", doing, e.what());
    return Fail(ErrorCode::kInternal,
                fmt::format("An internal error stopped {}; the log has the details.", doing));
  }
}

}  // namespace

struct Scheduler::Impl {
  Impl(const SchedulerOptions& scheduler_options, const Clock& scheduler_clock)
      : options(scheduler_options), clock(scheduler_clock) {}

  // The engine thread.
  void Run(const MakeParts& make, std::promise<Result<void>> started);
  void Serve(EngineLoop& loop);
  void WaitForWork(EngineLoop& loop, std::unique_lock<std::mutex>& lock);
  void Publish(const EngineLoop& loop);

  // Any thread.
  [[nodiscard]] Result<void> Check(const std::vector<Request>& requests) const;
  [[nodiscard]] Result<void> CheckOne(const Request& request) const;
  [[nodiscard]] Result<void> Enqueue(std::vector<std::unique_ptr<Sequence>> sequences);
  void CountRefused(std::size_t n);

  const SchedulerOptions options;
  const Clock& clock;
  // Set on the engine thread before Start returns, then constant.
  EngineFacts facts;
  std::optional<KvNeed> need;

  std::mutex mutex;
  std::condition_variable work;     // for the engine thread: incoming, cancel_all or stopping
  std::condition_variable drained;  // nothing is left
  // Guarded by mutex:
  std::vector<std::unique_ptr<Sequence>> incoming;
  bool draining = false;
  bool cancel_all = false;
  bool stopping = false;
  bool woken = false;                                          // the cache wants to be polled
  std::vector<std::packaged_task<void(EngineLoop&)>> errands;  // between two steps
  bool is_idle = true;   // the engine thread has nothing to do and has delivered all events
  SchedulerStats stats;  // as of the last step; waiting includes incoming
  std::uint64_t refused = 0;

  std::thread thread;
};

void Scheduler::Impl::Run(const MakeParts& make, std::promise<Result<void>> started) {
  const Wake wake = [this] {
    {
      const std::lock_guard lock(mutex);
      woken = true;
    }
    work.notify_all();
  };
  Result<Parts> parts = Guarded("loading the model", [&] { return make(wake); });
  if (!parts) {
    started.set_value(Fail(parts.error()));
    return;
  }
  const engine::Engine& engine = *parts->engine;
  need.emplace(parts->engine->blocks());
  facts = {.vocab_size = engine.vocab_size(),
           .weight_bytes = engine.weight_bytes(),
           .kv_budget_bytes = parts->engine->blocks().budget_bytes(),
           .kv_block_bytes = need->block_bytes(),
           .fingerprint = engine.fingerprint()};
  EngineLoop loop(options, clock, *parts);
  {
    const std::lock_guard lock(mutex);
    stats = loop.stats();
  }
  started.set_value({});
  Serve(loop);
}

void Scheduler::Impl::Serve(EngineLoop& loop) {
  for (bool running = true; running;) {
    bool cancels = false;
    std::vector<std::packaged_task<void(EngineLoop&)>> taken;
    {
      std::unique_lock lock(mutex);
      is_idle = loop.idle() && incoming.empty();
      if (is_idle) {
        drained.notify_all();
      }
      WaitForWork(loop, lock);
      is_idle = false;
      taken = std::exchange(errands, {});
      for (std::unique_ptr<Sequence>& sequence : std::exchange(incoming, {})) {
        loop.Add(std::move(sequence));
      }
      running = !stopping;
      cancels = stopping || std::exchange(cancel_all, false);
    }
    for (std::packaged_task<void(EngineLoop&)>& errand : taken) {
      errand(loop);
    }
    if (cancels) {
      loop.CancelAll();
    } else if (const Result<void> ok = Guarded("a step",
                                               [&]() -> Result<void> {
                                                 loop.Step();
                                                 return {};
                                               });
               !ok) {
      loop.FailStep(ok.error());
    }
    Publish(loop);
    loop.Flush();
  }
}

void Scheduler::Impl::WaitForWork(EngineLoop& loop, std::unique_lock<std::mutex>& lock) {
  // How soon a sequence that waits for the disk is found cancelled, or the disk too slow.
  constexpr std::chrono::milliseconds kLookAgain{20};
  const auto has_work = [&] {
    return stopping || cancel_all || woken || !errands.empty() || !incoming.empty() ||
           loop.CanStep();
  };
  if (loop.idle()) {
    work.wait(lock, has_work);
  } else {
    work.wait_for(lock, kLookAgain, has_work);
  }
  woken = false;
}

void Scheduler::Impl::Publish(const EngineLoop& loop) {
  const std::lock_guard lock(mutex);
  stats = loop.stats();
  stats.waiting += static_cast<int>(incoming.size());
}

Result<std::unique_ptr<Scheduler>> Scheduler::Start(const SchedulerOptions& options,
                                                    const Clock& clock, MakeParts make) {
  if (options.max_num_seqs < 1 || options.prefill_step_size < 1 || options.max_queue < 0) {
    // With none of either no step would ever be planned.
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The scheduler needs max_num_seqs and prefill_step_size of at least 1 "
                            "and max_queue of at least 0, got {}, {} and {}.",
                            options.max_num_seqs, options.prefill_step_size, options.max_queue));
  }
  auto impl = std::make_unique<Impl>(options, clock);
  std::promise<Result<void>> started;
  std::future<Result<void>> result = started.get_future();
  impl->thread = std::thread(
      [&impl_ref = *impl, make = std::move(make), promise = std::move(started)]() mutable {
        impl_ref.Run(make, std::move(promise));
      });
  if (const Result<void> ok = result.get(); !ok) {
    impl->thread.join();
    return Fail(ok.error());
  }
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->draining = true;
    impl_->stopping = true;
  }
  impl_->work.notify_all();
  impl_->thread.join();
}

Result<TokenStream> Scheduler::Submit(std::vector<Request> requests) {
  const std::size_t n = requests.size();
  if (const Result<void> ok = impl_->Check(requests); !ok) {
    impl_->CountRefused(n);
    return Fail(ok.error());
  }
  const auto shared = std::make_shared<TokenStream::Shared>(n);
  const Clock::TimePoint now = impl_->clock.Now();
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < n; ++i) {
    sequences.push_back(std::make_unique<Sequence>(NextSequenceId(), std::move(requests[i]),
                                                   static_cast<int>(i), shared, now));
  }
  if (const Result<void> ok = impl_->Enqueue(std::move(sequences)); !ok) {
    return Fail(ok.error());
  }
  return TokenStream(shared);
}

Result<void> Scheduler::Impl::Check(const std::vector<Request>& requests) const {
  if (requests.empty()) {
    return Fail(ErrorCode::kInvalidRequest, "There is no sequence to generate.");
  }
  for (const Request& request : requests) {
    if (Result<void> ok = CheckOne(request); !ok) {
      return ok;
    }
  }
  return {};
}

Result<void> Scheduler::Impl::CheckOne(const Request& request) const {
  if (request.prompt.empty()) {
    return Fail(ErrorCode::kInvalidRequest, "The prompt has no tokens.");
  }
  if (request.max_tokens < 1) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`max_tokens` must be at least 1, got {}.", request.max_tokens),
                "max_tokens");
  }
  for (const TokenId token : request.prompt) {
    if (token < 0 || token >= facts.vocab_size) {
      return Fail(ErrorCode::kInvalidRequest, fmt::format("Token ids must be from 0 to {}, got {}.",
                                                          facts.vocab_size - 1, token));
    }
  }
  const auto prompt_len = static_cast<std::int64_t>(request.prompt.size());
  const std::int64_t len = prompt_len + request.max_tokens;
  if (len > options.context_length) {
    return Fail(
        ErrorCode::kContextLengthExceeded,
        fmt::format(
            "The prompt of {} tokens and `max_tokens` {} exceed the context length of {} tokens.",
            prompt_len, request.max_tokens, options.context_length));
  }
  if (const std::uint64_t bytes = need->PeakBytes(len); bytes > facts.kv_budget_bytes) {
    return Fail(
        ErrorCode::kOutOfMemory,
        fmt::format(
            "The prompt of {} tokens and `max_tokens` {} need {} of KV cache, but the budget is "
            "{}, enough for {} tokens.",
            prompt_len, request.max_tokens, FormatBytes(bytes), FormatBytes(facts.kv_budget_bytes),
            need->MaxTokens(facts.kv_budget_bytes, options.context_length)));
  }
  return {};
}

Result<void> Scheduler::Impl::Enqueue(std::vector<std::unique_ptr<Sequence>> sequences) {
  {
    const std::lock_guard lock(mutex);
    if (draining) {
      refused += sequences.size();
      return Fail(ErrorCode::kShuttingDown,
                  "The server is shutting down and takes no new requests.");
    }
    const auto n = static_cast<int>(sequences.size());
    const int limit = options.max_num_seqs + options.max_queue;
    if (stats.running + stats.waiting + n > limit) {
      refused += sequences.size();
      return Fail(
          ErrorCode::kOverloaded,
          fmt::format("The queue is full: {} sequences run and {} wait, at most {} may do so "
                      "together, and this request has {}. Try again later.",
                      stats.running, stats.waiting, limit, n));
    }
    stats.waiting += n;
    is_idle = false;
    for (std::unique_ptr<Sequence>& sequence : sequences) {
      incoming.push_back(std::move(sequence));
    }
  }
  work.notify_all();
  return {};
}

void Scheduler::Impl::CountRefused(std::size_t n) {
  const std::lock_guard lock(mutex);
  refused += n;
}

void Scheduler::Drain(Clock::TimePoint deadline) {
  // The deadline is in the injected clock's time, which no condition variable waits for.
  constexpr std::chrono::milliseconds kLookAtClock{20};
  std::unique_lock lock(impl_->mutex);
  impl_->draining = true;
  while (!impl_->is_idle && impl_->clock.Now() < deadline) {
    impl_->drained.wait_for(lock, kLookAtClock);
  }
  if (!impl_->is_idle) {
    impl_->cancel_all = true;
    impl_->work.notify_all();
    impl_->drained.wait(lock, [this] { return impl_->is_idle; });
  }
}

SchedulerStats Scheduler::stats() const {
  const std::lock_guard lock(impl_->mutex);
  SchedulerStats stats = impl_->stats;
  stats.requests_refused = impl_->refused;
  return stats;
}

void Scheduler::ClearCache(Tiers tiers) {
  std::packaged_task<void(EngineLoop&)> errand(
      [tiers](EngineLoop& loop) { loop.ClearCache(tiers); });
  std::future<void> done = errand.get_future();
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopping) {
      return;
    }
    impl_->errands.push_back(std::move(errand));
  }
  impl_->work.notify_all();
  done.wait();
}

const Scheduler::EngineFacts& Scheduler::facts() const { return impl_->facts; }

}  // namespace scheduler
