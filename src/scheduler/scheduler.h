#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "cache/prefix_cache.h"
#include "engine/engine.h"
#include "scheduler/request.h"
#include "scheduler/token_stream.h"

namespace scheduler {

struct SchedulerOptions {
  int max_num_seqs = 16;        // sequences computed together
  int prefill_step_size = 512;  // tokens a step may compute, decode rows included
  int max_queue = 256;          // sequences beyond max_num_seqs; more are refused with kOverloaded
  std::int64_t context_length = 0;  // prompt + reply never exceed it
  bool repetition_guard = true;     // replies that loop without end are ended (repetition_guard.h)
};

struct SchedulerStats {
  int running = 0;
  int waiting = 0;
  std::uint64_t steps = 0;
  // Sequences by their end.
  std::uint64_t requests_finished = 0;
  std::uint64_t requests_cancelled = 0;
  std::uint64_t requests_cancelled_in_queue = 0;  // of them before any of their tokens was computed
  std::uint64_t requests_failed = 0;
  std::uint64_t requests_refused = 0;  // by Submit
  std::uint64_t preemptions = 0;
  std::uint64_t prompt_tokens = 0;  // computed and cached
  std::uint64_t cached_prompt_tokens = 0;
  std::uint64_t disk_prompt_tokens = 0;    // of the cached ones, restored from the disk
  std::uint64_t remote_prompt_tokens = 0;  // ... and from the shared tier
  std::uint64_t completion_tokens = 0;
  cache::CacheStats cache;
};

// Continuous batching. Owns the one engine thread of a model: on it the engine and the cache are
// made, used and destroyed. Every step takes one row of each decoding sequence, then fills the
// token budget with prefill chunks of admitted sequences (interactive before background, longest
// banked prefix first, with ageing), so decoding streams never stall behind a long prompt. Chunks
// end at multiples of 64 tokens where they can. A waiting request whose prefix a running one is
// just prefilling waits for it. When blocks run out the youngest sequence is put back into the
// queue; its full blocks stay in the bank. What the lower tiers have of a waiting sequence's prompt is
// restored meanwhile, while the others are stepped.
class Scheduler {
 public:
  // What runs on the engine thread: made there by `make`.
  struct Parts {
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<cache::PrefixCache>
        cache;  // on the engine's block store; destroyed before the engine
  };
  // Calls for a step, from any thread as long as the parts live: the cache has something to Poll.
  using Wake = std::function<void()>;
  using MakeParts = std::function<Result<Parts>(const Wake& wake)>;
  // Starts the engine thread, waits for `make` to finish there, and returns its error if it failed.
  [[nodiscard]] static Result<std::unique_ptr<Scheduler>> Start(const SchedulerOptions& options,
                                                                const Clock& clock, MakeParts make);
  // Cancels everything and joins the thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Queues the sequences (n choices of one request: same prompt; the first prefills it, the others
  // wait for that). Thread-safe. All are taken or none. Errors: kOverloaded (queue full),
  // kOutOfMemory (prompt + max_tokens can never fit in the KV budget: numbers named),
  // kShuttingDown, kInvalidRequest (no sequence, empty prompt, a token outside the vocabulary,
  // max_tokens < 1), kContextLengthExceeded (prompt + max_tokens > context_length).
  [[nodiscard]] Result<TokenStream> Submit(std::vector<Request> requests);

  // Refuses new requests from now on; returns when all running ones have ended or `deadline` has
  // passed (then the rest is cancelled).
  void Drain(Clock::TimePoint deadline);

  [[nodiscard]] SchedulerStats stats() const;

  // Drops what no sequence uses from the tiers of the bank. Waits until it is done; between two
  // steps, so running sequences go on afterwards.
  struct Tiers {
    bool memory = false;
    bool disk = false;
  };
  void ClearCache(Tiers tiers);

  // Facts of the engine, for the banner and /v1/models.
  struct EngineFacts {
    int vocab_size = 0;
    std::uint64_t weight_bytes = 0;
    std::uint64_t kv_budget_bytes = 0;
    std::uint64_t kv_block_bytes = 0;  // all groups
    std::string fingerprint;
  };
  [[nodiscard]] const EngineFacts& facts() const;

 private:
  struct Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace scheduler
