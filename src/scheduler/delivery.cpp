// The second half of EngineLoop's step: from logits to events.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "scheduler/engine_loop.h"
#include "scheduler/repetition_guard.h"

namespace scheduler {

void EngineLoop::Deliver(const std::vector<Planned>& plan, engine::StepLogits& logits) {
  int row = 0;
  for (const Planned& part : plan) {
    Sequence& sequence = *part.sequence;
    const bool has_logits = part.n_tokens == sequence.remaining();
    sequence.computed += part.n_tokens;
    cache_.Commit(sequence.lease,
                  std::span(sequence.tokens).first(static_cast<std::size_t>(sequence.computed)));
    if (has_logits) {
      DeliverToken(sequence, logits.Row(row++));
    }
  }
}

void EngineLoop::DeliverToken(Sequence& sequence, std::span<float> logits) {
  if (sequence.is_cancelled()) {
    Finish(sequence, FinishReason::kCancelled, std::nullopt);
    return;
  }
  Result<engine::SampledToken> sampled = SampleToken(sequence, logits);
  if (!sampled) {
    FailWith(sequence, sampled.error());
    return;
  }
  const Clock::TimePoint now = clock_.Now();
  if (sequence.stats.completion_tokens == 0) {
    sequence.first_token = now;
    sequence.stats.prompt_ms = MillisecondsBetween(sequence.admitted, now);
  }
  ++sequence.stats.completion_tokens;
  ++stats_.completion_tokens;
  sequence.stats.predicted_ms = MillisecondsBetween(sequence.first_token, now);
  sequence.tokens.push_back(sampled->token);

  if (sequence.is_stop_token(sampled->token)) {
    Finish(sequence, FinishReason::kStop, std::move(*sampled));
  } else if (sequence.stats.completion_tokens >= sequence.request.max_tokens) {
    Finish(sequence, FinishReason::kLength, std::move(*sampled));
  } else if (IsLooping(sequence)) {
    Finish(sequence, FinishReason::kLength, std::move(*sampled));
  } else {
    Post(sequence,
         {.sequence = sequence.index, .token = std::move(*sampled), .finish = {}, .error = {}});
  }
}

bool EngineLoop::IsLooping(const Sequence& sequence) const {
  // With ignore_eos a reply is wanted as long as it gets.
  if (!options_.repetition_guard || sequence.request.ignore_eos ||
      sequence.stats.completion_tokens % kLoopCheckTokens != 0) {
    return false;
  }
  const std::optional<Loop> loop = FindLoop(
      std::span(sequence.tokens).last(static_cast<std::size_t>(sequence.stats.completion_tokens)));
  if (loop) {
    spdlog::warn(
        "a reply is ended: its last {} tokens are the same {} again and again "
        "(--no-repetition-guard lets it go on)",
        loop->length, loop->period);
  }
  return loop.has_value();
}

Result<engine::SampledToken> EngineLoop::SampleToken(Sequence& sequence, std::span<float> logits) {
  TokenConstraint* constraint = sequence.request.constraint.get();
  std::span<const std::uint32_t> allowed;
  if (constraint != nullptr) {
    const Result<std::span<const std::uint32_t>> mask = masks_.Wait(*constraint);
    if (!mask) {
      return Fail(mask.error());
    }
    allowed = *mask;
  }
  std::span<const TokenId> forbidden;
  if (sequence.request.ignore_eos) {
    forbidden = sequence.request.stop_token_ids;
  }
  engine::SampledToken sampled = sequence.sampler.Sample(logits, allowed, forbidden);
  if (constraint != nullptr && !sequence.is_stop_token(sampled.token)) {
    if (const Result<void> accepted = constraint->Accept(sampled.token); !accepted) {
      return Fail(accepted.error());
    }
  }
  return sampled;
}

void EngineLoop::Finish(Sequence& sequence, FinishReason reason,
                        std::optional<engine::SampledToken> token) {
  if (reason == FinishReason::kCancelled) {
    ++stats_.requests_cancelled;
    stats_.requests_cancelled_in_queue += sequence.was_admitted ? 0 : 1;
  } else {
    ++stats_.requests_finished;
  }
  End(sequence,
      {.sequence = sequence.index, .token = std::move(token), .finish = reason, .error = {}});
}

void EngineLoop::FailWith(Sequence& sequence, Error error) {
  ++stats_.requests_failed;
  End(sequence, {.sequence = sequence.index, .token = {}, .finish = {}, .error = std::move(error)});
}

// All that was computed has been committed: Release keeps the full blocks of prompt and reply
// banked.
void EngineLoop::End(Sequence& sequence, TokenEvent event) {
  Post(sequence, std::move(event));
  if (sequence.restore) {
    cache_.EndRestore(*sequence.restore);
    sequence.restore.reset();
  }
  for (auto* from : {&waiting_, &running_}) {
    const auto found = std::find_if(from->begin(), from->end(),
                                    [&](const auto& other) { return other.get() == &sequence; });
    if (found == from->end()) {
      continue;
    }
    if (from == &running_) {
      cache_.Release(std::move(sequence.lease));
      admission_blocked_ = false;
    }
    ended_.push_back(std::move(*found));
    from->erase(found);
  }
}

void EngineLoop::Post(const Sequence& sequence, TokenEvent event) {
  outbox_.push_back(
      {.stream = sequence.stream, .event = std::move(event), .stats = sequence.stats});
}

}  // namespace scheduler
