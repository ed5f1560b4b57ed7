#include "scheduler/admission.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace scheduler {
namespace {

constexpr double kBackgroundPatienceMs = 30'000;
constexpr double kAgeingTokensPerMs = 1.024;
constexpr std::size_t kMaxCompeting = 32;

// 0 first.
std::size_t ClassOf(const Sequence& sequence, Clock::TimePoint now) {
  if (sequence.preempted) {
    return 0;
  }
  return IsUrgent(sequence, now) ? 1 : 2;
}

}  // namespace

bool IsUrgent(const Sequence& sequence, Clock::TimePoint now) {
  return sequence.request.priority == Priority::kInteractive || sequence.promoted ||
         MillisecondsBetween(sequence.submitted, now) >= kBackgroundPatienceMs;
}

std::vector<Applicant> OrderApplicants(const std::vector<std::unique_ptr<Sequence>>& waiting,
                                       const cache::PrefixCache& cache, Clock::TimePoint now) {
  struct Ranked {
    std::size_t rank = 0;
    double score = 0;
    Applicant applicant;
  };
  std::vector<Ranked> ranked;
  std::array<std::size_t, 3> competing{};
  for (const std::unique_ptr<Sequence>& sequence : waiting) {
    const std::size_t rank = ClassOf(*sequence, now);
    if (competing[rank]++ >= kMaxCompeting) {
      continue;
    }
    const std::int64_t banked =
        cache.MatchLength(sequence->tokens, sequence->request.cache_salt, sequence->prefix_keys);
    const double waited = MillisecondsBetween(sequence->submitted, now);
    const double score = rank == 0 ? 0 : static_cast<double>(banked) + kAgeingTokensPerMs * waited;
    ranked.push_back({rank, score, {.sequence = sequence.get(), .banked = banked}});
  }
  // Stable: arrival decides between equals.
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.score > b.score;
  });
  std::vector<Applicant> applicants;
  applicants.reserve(ranked.size());
  for (const Ranked& entry : ranked) {
    applicants.push_back(entry.applicant);
  }
  return applicants;
}

std::int64_t CommonBlocks(const Sequence& applicant, const Sequence& running) {
  const std::vector<TokenId>& tokens = applicant.tokens;
  const auto differ =
      std::mismatch(tokens.begin(), tokens.end() - 1, running.tokens.begin(), running.tokens.end());
  return (differ.first - tokens.begin()) / ops::kBlockTokens * ops::kBlockTokens;
}

Sequence* ComputesPrefixOf(const Applicant& applicant,
                           const std::vector<std::unique_ptr<Sequence>>& running) {
  for (const std::unique_ptr<Sequence>& other : running) {
    if (other->request.cache_salt != applicant.sequence->request.cache_salt) {
      continue;
    }
    const std::int64_t will_be_banked = CommonBlocks(*applicant.sequence, *other);
    if (will_be_banked > applicant.banked && will_be_banked > other->computed) {
      return other.get();
    }
  }
  return nullptr;
}

}  // namespace scheduler
