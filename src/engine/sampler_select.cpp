#include "engine/sampler_select.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr std::size_t kLanes = 16;  // looked at together, which compilers make vector code of

bool AnyAbove(std::span<const float> values, float limit) {
  int found = 0;
  for (const float value : values) {
    found |= value > limit ? 1 : 0;
  }
  return found != 0;
}

// Output function of SplitMix64.
std::uint64_t Mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

TokenId ArgMax(std::span<const float> logits) {
  float largest = kImpossible;
  std::size_t best = 0;
  for (std::size_t begin = 0; begin < logits.size(); begin += kLanes) {
    const auto some = logits.subspan(begin, std::min(kLanes, logits.size() - begin));
    if (AnyAbove(some, largest)) {
      best = begin +
             static_cast<std::size_t>(std::max_element(some.begin(), some.end()) - some.begin());
      largest = logits[best];
    }
  }
  return static_cast<TokenId>(best);
}

std::vector<Candidate> TopK(std::span<const float> logits, std::size_t k) {
  std::vector<Candidate> best;  // a heap with the least likely at the front, once it is full
  k = std::min(k, logits.size());
  best.reserve(k);
  for (std::size_t begin = 0; begin < logits.size() && k > 0; begin += kLanes) {
    const auto some = logits.subspan(begin, std::min(kLanes, logits.size() - begin));
    // A later token with the same logit is less likely, so > is right.
    if (!AnyAbove(some, best.size() == k ? best.front().logit : kImpossible)) {
      continue;
    }
    for (std::size_t j = 0; j < some.size(); ++j) {
      if (!(some[j] > (best.size() == k ? best.front().logit : kImpossible))) {
        continue;
      }
      if (best.size() == k) {
        std::pop_heap(best.begin(), best.end(), Likelier);
        best.pop_back();
      }
      best.push_back({.token = static_cast<TokenId>(begin + j), .logit = some[j]});
      std::push_heap(best.begin(), best.end(), Likelier);
    }
  }
  std::sort(best.begin(), best.end(), Likelier);
  return best;
}

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) {
    total += candidate.weight;
  }
  return total;
}

void SetWeights(std::span<Candidate> candidates, float largest, double temperature) {
  for (Candidate& candidate : candidates) {
    candidate.weight = std::exp(
        (static_cast<double>(candidate.logit) - static_cast<double>(largest)) / temperature);
  }
}

void KeepTopP(std::vector<Candidate>& candidates, double wanted) {
  std::sort(candidates.begin(), candidates.end(), Likelier);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || sum < wanted)) {
    sum += candidates[kept++].weight;
  }
  candidates.resize(kept);
}

void KeepMinP(std::vector<Candidate>& candidates, double min_p) {
  std::erase_if(candidates,
                [min_p](const Candidate& candidate) { return candidate.weight < min_p; });
}

TokenId Draw(std::span<const Candidate> candidates, double u) {
  const double target = u * TotalWeight(candidates);
  double sum = 0;
  TokenId last_possible = candidates.front().token;
  for (const Candidate& candidate : candidates) {
    sum += candidate.weight;
    if (candidate.weight > 0) {
      last_possible = candidate.token;
      if (sum > target) {
        return candidate.token;
      }
    }
  }
  return last_possible;  // rounding left the target at the very end
}

double UniformAt(std::uint64_t seed, std::uint64_t draw) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15U;
  // The seed is mixed first: neighbouring seeds would otherwise give shifted copies of one stream.
  const std::uint64_t bits = Mix(Mix(seed + kGolden) + (draw + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

}  // namespace engine
