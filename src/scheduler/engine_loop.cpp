#include "scheduler/engine_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "scheduler/admission.h"
#include "scheduler/chunk_plan.h"

namespace scheduler {
namespace {

using Sequences = std::vector<std::unique_ptr<Sequence>>;

// However a step ends, no constraint of its sequences is in use behind it.
struct MasksInWork {
  MaskAhead& masks;
  ~MasksInWork() { masks.Finish(); }
};

std::unique_ptr<Sequence> TakeOut(Sequences& from, const Sequence& sequence) {
  const auto found =
      std::find_if(from.begin(), from.end(),
                   [&](const std::unique_ptr<Sequence>& s) { return s.get() == &sequence; });
  if (found == from.end()) {
    return nullptr;
  }
  std::unique_ptr<Sequence> taken = std::move(*found);
  from.erase(found);
  return taken;
}

}  // namespace

EngineLoop::EngineLoop(const SchedulerOptions& options, const Clock& clock, Scheduler::Parts& parts)
    : options_(options),
      clock_(clock),
      engine_(*parts.engine),
      cache_(*parts.cache),
      need_(parts.engine->blocks()) {}

EngineLoop::~EngineLoop() {
  CancelAll();
  Flush();
}

void EngineLoop::Add(std::unique_ptr<Sequence> sequence) {
  waiting_.push_back(std::move(sequence));
}

void EngineLoop::Step() {
  cache_.Poll();
  DropCancelled();
  StartRestores();
  Admit();
  const std::vector<Planned> plan = PlanStep();
  if (!plan.empty()) {
    ++stats_.steps;
    BeginMasks(plan);
    const MasksInWork in_work{masks_};
    const Clock::TimePoint began = clock_.Now();
    Result<engine::StepLogits> logits = engine_.Forward(MakeBatch(plan));
    if (logits) {
      NoteSpeed(plan, MillisecondsBetween(began, clock_.Now()));
      Deliver(plan, *logits);
    } else {
      for (const Planned& part : plan) {
        FailWith(*part.sequence, logits.error());
      }
    }
  }
  if (!ended_.empty()) {
    cache_.Poll();  // there may be no further step: their last blocks go to the disk now
  }
  ended_.clear();
}

void EngineLoop::CancelAll() {
  while (!waiting_.empty()) {
    Finish(*waiting_.back(), FinishReason::kCancelled, std::nullopt);
  }
  while (!running_.empty()) {
    Finish(*running_.back(), FinishReason::kCancelled, std::nullopt);
  }
  ended_.clear();
}

void EngineLoop::FailStep(const Error& error) {
  Sequences& failed = running_.empty() ? waiting_ : running_;
  while (!failed.empty()) {
    FailWith(*failed.back(), error);
  }
  ended_.clear();
}

void EngineLoop::Flush() {
  for (Message& message : outbox_) {
    message.stream->Push(std::move(message.event), message.stats);
  }
  outbox_.clear();
}

SchedulerStats EngineLoop::stats() const {
  SchedulerStats stats = stats_;
  stats.running = static_cast<int>(running_.size());
  stats.waiting = static_cast<int>(waiting_.size());
  stats.cache = cache_.stats();
  return stats;
}

void EngineLoop::DropCancelled() {
  std::vector<Sequence*> cancelled;
  for (const Sequences* sequences : {&waiting_, &running_}) {
    for (const std::unique_ptr<Sequence>& sequence : *sequences) {
      if (sequence->is_cancelled()) {
        cancelled.push_back(sequence.get());
      }
    }
  }
  for (Sequence* sequence : cancelled) {
    Finish(*sequence, FinishReason::kCancelled, std::nullopt);
  }
}

void EngineLoop::Admit() {
  const auto slots = static_cast<std::size_t>(options_.max_num_seqs);
  if (running_.empty()) {
    admission_blocked_ = false;
  }
  if (waiting_.empty() || admission_blocked_ || running_.size() >= slots) {
    return;
  }
  const Clock::TimePoint now = clock_.Now();
  for (const Applicant& applicant : OrderApplicants(waiting_, cache_, now)) {
    if (running_.size() >= slots) {
      return;
    }
    if (IsRestoring(*applicant.sequence)) {
      continue;
    }
    Sequence* sibling = cache_.SharesPrefixes() ? ComputesPrefixOf(applicant, running_) : nullptr;
    if (sibling != nullptr) {
      cache_.AddBoundary(sibling->lease, CommonBlocks(*applicant.sequence, *sibling));
      sibling->promoted = sibling->promoted || IsUrgent(*applicant.sequence, now);
    } else if (!TryStart(*applicant.sequence)) {
      admission_blocked_ = true;
      return;
    }
  }
}

// Starts a waiting sequence unless the memory is needed by those that run. Alone, it may always
// try.
bool EngineLoop::TryStart(Sequence& sequence) {
  sequence.lease =
      cache_.Begin(sequence.tokens, sequence.request.cache_salt, sequence.request.boundaries);
  if (!running_.empty()) {
    // Room for what each prompt still needs and for the next block of every reply.
    std::uint64_t needed = 0;
    for (const std::unique_ptr<Sequence>& other : running_) {
      needed += need_.MissingBytes(other->lease, static_cast<std::int64_t>(other->tokens.size())) +
                need_.block_bytes();
    }
    needed +=
        need_.MissingBytes(sequence.lease, static_cast<std::int64_t>(sequence.tokens.size())) +
        need_.block_bytes();
    if (needed > cache_.AvailableBytes()) {
      cache_.Release(std::move(sequence.lease));
      return false;
    }
  }
  if (sequence.restore) {
    AddRestored(sequence, cache_.EndRestore(*sequence.restore));
    sequence.restore.reset();
  }
  sequence.computed = sequence.lease.cached_len();
  sequence.admission = admissions_++;
  sequence.preempted = false;
  if (!sequence.was_admitted) {
    sequence.was_admitted = true;
    sequence.admitted = clock_.Now();
    sequence.stats.cached_tokens = sequence.computed;
    RequestStats& stats = sequence.stats;
    stats.disk_tokens = std::min(stats.disk_tokens, sequence.computed);
    stats.remote_tokens = std::min(stats.remote_tokens, sequence.computed - stats.disk_tokens);
    stats_.disk_prompt_tokens += static_cast<std::uint64_t>(stats.disk_tokens);
    stats_.remote_prompt_tokens += static_cast<std::uint64_t>(stats.remote_tokens);
    sequence.stats.queue_ms = MillisecondsBetween(sequence.submitted, sequence.admitted);
    stats_.prompt_tokens += static_cast<std::uint64_t>(sequence.stats.prompt_tokens);
    stats_.cached_prompt_tokens += static_cast<std::uint64_t>(sequence.computed);
  }
  running_.push_back(TakeOut(waiting_, sequence));
  return true;
}

// Tells the cache how fast prompts are computed, by steps that do little else.
void EngineLoop::NoteSpeed(const std::vector<Planned>& plan, double ms) {
  std::int64_t tokens = 0;
  std::int64_t decodes = 0;
  for (const Planned& part : plan) {
    tokens += part.n_tokens;
    decodes += part.n_tokens == 1 ? 1 : 0;
  }
  if (tokens >= ops::kBlockTokens && 2 * decodes < tokens && ms > 0) {
    cache_.NoteComputed(tokens, ms);
  }
}

std::vector<EngineLoop::Planned> EngineLoop::PlanStep() {
  std::vector<Planned> plan;
  // Empty although something runs: blocks were short and somebody was put back or failed; the rest
  // is planned anew.
  while (plan.empty() && !running_.empty()) {
    PlanDecodes(plan);
    PlanPrefills(plan);
  }
  return plan;
}

// One row for each sequence whose last token alone is not computed.
void EngineLoop::PlanDecodes(std::vector<Planned>& plan) {
  std::vector<Sequence*> decoding;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->remaining() == 1) {
      decoding.push_back(sequence.get());
    }
  }
  for (Sequence* sequence : decoding) {
    if (IsRunning(*sequence) && ReserveBlocks(*sequence, 1, plan) > 0) {
      plan.push_back({.sequence = sequence, .n_tokens = 1});
    }
  }
}

void EngineLoop::PlanPrefills(std::vector<Planned>& plan) {
  std::vector<Sequence*> prefilling;
  for (const std::unique_ptr<Sequence>& sequence : running_) {
    if (sequence->remaining() > 1) {
      prefilling.push_back(sequence.get());
    }
  }
  const Clock::TimePoint now = clock_.Now();
  std::stable_partition(prefilling.begin(), prefilling.end(),
                        [now](const Sequence* sequence) { return IsUrgent(*sequence, now); });
  std::vector<PrefillDemand> demands;
  for (const Sequence* sequence : prefilling) {
    demands.push_back({.computed = sequence->computed, .remaining = sequence->remaining()});
  }
  // Decode rows count against the step, but however many there are, prompts go on by up to a block.
  const std::int64_t step = options_.prefill_step_size;
  const std::int64_t budget = std::max(step - static_cast<std::int64_t>(plan.size()),
                                       std::min<std::int64_t>(step, ops::kBlockTokens));
  const std::vector<std::int64_t> chunks = ShareBudget(demands, budget);
  for (std::size_t i = 0; i < prefilling.size(); ++i) {
    if (chunks[i] == 0 || !IsRunning(*prefilling[i])) {
      continue;
    }
    const std::int64_t n_tokens = ReserveBlocks(*prefilling[i], chunks[i], plan);
    if (n_tokens > 0) {
      plan.push_back({.sequence = prefilling[i], .n_tokens = n_tokens});
    }
  }
}

// Gets blocks for the sequence's next `n_tokens`, or for fewer (returned), pre-empting the youngest
// when there are none. 0: the sequence itself had to go.
std::int64_t EngineLoop::ReserveBlocks(Sequence& sequence, std::int64_t n_tokens,
                                       std::vector<Planned>& plan) {
  while (!cache_.Reserve(sequence.lease, sequence.computed + n_tokens)) {
    if (AbandonRestores()) {
      continue;
    }
    const std::int64_t to_block_end = ops::kBlockTokens - sequence.computed % ops::kBlockTokens;
    if (n_tokens > to_block_end) {
      n_tokens = to_block_end;
      continue;
    }
    if (running_.size() == 1) {
      const auto len = static_cast<std::int64_t>(sequence.tokens.size());
      FailWith(sequence, {.code = ErrorCode::kOutOfMemory,
                          .message = fmt::format("The KV cache budget of {} cannot hold the {} "
                                                 "tokens of this sequence, which take {}.",
                                                 FormatBytes(cache_.stats().budget_bytes), len,
                                                 FormatBytes(need_.PeakBytes(len))),
                          .param = {}});
      return 0;
    }
    Sequence* youngest = running_.back().get();
    std::erase_if(plan, [youngest](const Planned& part) { return part.sequence == youngest; });
    Preempt(*youngest);
    if (youngest == &sequence) {
      return 0;
    }
  }
  return n_tokens;
}

// Puts a running sequence back. Its full blocks stay in the bank, its text so far is its prompt
// when it resumes.
void EngineLoop::Preempt(Sequence& sequence) {
  cache_.Release(std::move(sequence.lease));
  sequence.computed = 0;
  sequence.restores_left = 1;  // its blocks may only be on the disk when it resumes
  sequence.preempted = true;
  admission_blocked_ = true;
  ++stats_.preemptions;
  // By id, which is the order of arrival.
  const auto place = std::find_if(waiting_.begin(), waiting_.end(),
                                  [&](const auto& other) { return other->id > sequence.id; });
  waiting_.insert(place, TakeOut(running_, sequence));
}

bool EngineLoop::IsRunning(const Sequence& sequence) const {
  return std::any_of(running_.begin(), running_.end(),
                     [&](const auto& other) { return other.get() == &sequence; });
}

// What may come next is known before the logits are.
void EngineLoop::BeginMasks(const std::vector<Planned>& plan) {
  std::vector<TokenConstraint*> constraints;
  for (const Planned& part : plan) {
    if (part.sequence->request.constraint != nullptr &&
        part.n_tokens == part.sequence->remaining()) {
      constraints.push_back(part.sequence->request.constraint.get());
    }
  }
  masks_.Begin(std::move(constraints));
}

std::vector<engine::StepSequence> EngineLoop::MakeBatch(const std::vector<Planned>& plan) const {
  std::vector<engine::StepSequence> batch;
  batch.reserve(plan.size());
  for (const Planned& part : plan) {
    const Sequence& sequence = *part.sequence;
    const auto first = sequence.tokens.begin() + sequence.computed;
    batch.push_back({.sequence_id = sequence.id,
                     .tokens = {first, first + part.n_tokens},
                     .first_position = sequence.computed,
                     .block_tables = sequence.lease.block_tables(),
                     .wants_logits = part.n_tokens == sequence.remaining()});
  }
  return batch;
}

}  // namespace scheduler
