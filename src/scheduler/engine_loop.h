#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cache/prefix_cache.h"
#include "engine/engine.h"
#include "scheduler/kv_need.h"
#include "scheduler/mask_ahead.h"
#include "scheduler/scheduler.h"
#include "scheduler/sequence.h"

namespace scheduler {

// What the engine thread does: all sequences, step by step. Single-threaded; the way in is Add, the
// way out the sequences' streams, which get their events by Flush.
//
//            Add              Admit                      last token, cancel, error
//   (new) ---------> waiting ---------> running ---------------------------------> (ended)
//                       ^                  |
//                       +------------------+  Preempt: no block left
class EngineLoop {
 public:
  // `parts` and `clock` must outlive it.
  EngineLoop(const SchedulerOptions& options, const Clock& clock, Scheduler::Parts& parts);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  void Add(std::unique_ptr<Sequence> sequence);
  [[nodiscard]] bool idle() const { return waiting_.empty() && running_.empty(); }
  // Whether a step would do something now: not when all that there is waits for the disk.
  [[nodiscard]] bool CanStep() const;

  // Poll, DropCancelled, StartRestores, Admit, PlanStep, Forward, Deliver.
  void Step();

  void ClearCache(Scheduler::Tiers tiers);

  // Ends every sequence with finish kCancelled.
  void CancelAll();

  // Ends every running sequence with `error`, or every waiting one when none runs: after a step
  // that was thrown out of, which must not be tried again forever.
  void FailStep(const Error& error);

  // Hands the events of the last step to their streams. Apart from Step, so that the counters are
  // published first: who has read a last event finds it counted.
  void Flush();

  [[nodiscard]] SchedulerStats stats() const;

 private:
  // A sequence's part of a step.
  struct Planned {
    Sequence* sequence = nullptr;
    std::int64_t n_tokens = 0;
  };
  struct Message {
    std::shared_ptr<TokenStream::Shared> stream;
    TokenEvent event;
    RequestStats stats;
  };

  void DropCancelled();
  void StartRestores();
  [[nodiscard]] bool IsRestoring(const Sequence& sequence) const;
  bool AbandonRestores();
  static void AddRestored(Sequence& sequence, const cache::RestoredTokens& tokens);
  void Admit();
  [[nodiscard]] bool TryStart(Sequence& sequence);
  [[nodiscard]] std::vector<Planned> PlanStep();
  void PlanDecodes(std::vector<Planned>& plan);
  void PlanPrefills(std::vector<Planned>& plan);
  [[nodiscard]] std::int64_t ReserveBlocks(Sequence& sequence, std::int64_t n_tokens,
                                           std::vector<Planned>& plan);
  void Preempt(Sequence& sequence);
  [[nodiscard]] std::vector<engine::StepSequence> MakeBatch(const std::vector<Planned>& plan) const;
  void NoteSpeed(const std::vector<Planned>& plan, double ms);
  void Deliver(const std::vector<Planned>& plan, engine::StepLogits& logits);
  void DeliverToken(Sequence& sequence, std::span<float> logits);
  void BeginMasks(const std::vector<Planned>& plan);
  [[nodiscard]] bool IsLooping(const Sequence& sequence) const;
  [[nodiscard]] Result<engine::SampledToken> SampleToken(Sequence& sequence,
                                                         std::span<float> logits);

  void Finish(Sequence& sequence, FinishReason reason, std::optional<engine::SampledToken> token);
  void FailWith(Sequence& sequence, Error error);
  void End(Sequence& sequence, TokenEvent event);
  void Post(const Sequence& sequence, TokenEvent event);
  [[nodiscard]] bool IsRunning(const Sequence& sequence) const;

  const SchedulerOptions options_;
  const Clock& clock_;
  engine::Engine& engine_;
  cache::PrefixCache& cache_;
  const KvNeed need_;
  std::vector<std::unique_ptr<Sequence>> waiting_;  // in order of arrival
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  std::vector<std::unique_ptr<Sequence>> ended_;  // until the end of the step: plans point to them
  std::vector<Message> outbox_;
  // Memory was short: nobody starts before a running sequence has given its blocks back.
  bool admission_blocked_ = false;
  std::uint64_t admissions_ = 0;
  SchedulerStats stats_;
  MaskAhead masks_;  // last: its thread asks the constraints of sequences
};

}  // namespace scheduler
