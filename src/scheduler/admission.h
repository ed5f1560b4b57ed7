#pragma once

#include <memory>
#include <vector>

#include "base/clock.h"
#include "cache/prefix_cache.h"
#include "scheduler/sequence.h"

namespace scheduler {

// A waiting sequence that may be admitted now.
struct Applicant {
  Sequence* sequence = nullptr;
  std::int64_t banked = 0;  // positions found in the bank
};

// The waiting sequences in the order in which they should start. `waiting` is in order of arrival.
//   1 sequences that were pre-empted (their readers are in the middle of a text), oldest first
//   2 interactive ones, and background ones that have waited for 30 s
//   3 the other background ones
// and within 2 and 3 by banked prefix + 1024 tokens for each second waited: who waited T seconds is
// passed by nobody who came later with less than 1024 T tokens banked, so nothing starves. Only the
// oldest 32 of each class compete, since this is asked at every step.
[[nodiscard]] std::vector<Applicant> OrderApplicants(
    const std::vector<std::unique_ptr<Sequence>>& waiting, const cache::PrefixCache& cache,
    Clock::TimePoint now);

// The running sequence that is just computing a longer part of the applicant's prompt than the bank
// has, or null: then the applicant should wait for it rather than compute the same.
[[nodiscard]] Sequence* ComputesPrefixOf(const Applicant& applicant,
                                         const std::vector<std::unique_ptr<Sequence>>& running);

// Positions at the beginning of the applicant's prompt that it can share with `running`, in whole
// blocks: what it has in common, but for its last token.
[[nodiscard]] std::int64_t CommonBlocks(const Sequence& applicant, const Sequence& running);

// Whether it goes with the interactive ones.
[[nodiscard]] bool IsUrgent(const Sequence& sequence, Clock::TimePoint now);

}  // namespace scheduler
