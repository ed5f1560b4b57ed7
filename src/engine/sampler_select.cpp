#include "engine/sampler_select.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();

double TotalWeight(std::span<const Candidate> candidates) {
  double total = 0;
  for (const Candidate& candidate : candidates) {
    total += candidate.weight;
  }
  return total;
}

// Output function of SplitMix64.
std::uint64_t Mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

TokenId ArgMax(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

std::vector<Candidate> TopK(std::span<const float> logits, std::size_t k) {
  std::vector<Candidate> best;  // a heap with the least likely at the front, once it is full
  k = std::min(k, logits.size());
  best.reserve(k);
  for (std::size_t i = 0; i < logits.size() && k > 0; ++i) {
    // A later token with the same logit is less likely, so > is right.
    if (logits[i] == kImpossible || (best.size() == k && !(logits[i] > best.front().logit))) {
      continue;
    }
    if (best.size() == k) {
      std::pop_heap(best.begin(), best.end(), Likelier);
      best.pop_back();
    }
    best.push_back({.token = static_cast<TokenId>(i), .logit = logits[i]});
    std::push_heap(best.begin(), best.end(), Likelier);
  }
  std::sort(best.begin(), best.end(), Likelier);
  return best;
}

void SetWeights(std::span<Candidate> candidates, float largest, double temperature) {
  for (Candidate& candidate : candidates) {
    candidate.weight = std::exp(
        (static_cast<double>(candidate.logit) - static_cast<double>(largest)) / temperature);
  }
}

void KeepTopP(std::vector<Candidate>& candidates, double top_p) {
  const double wanted = top_p * TotalWeight(candidates);
  // Nearly always the nucleus lies within those of some weight, a few hundred of a whole
  // vocabulary.
  constexpr double kSomeWeight = 1e-4;
  const auto rest = std::partition(candidates.begin(), candidates.end(),
                                   [](const Candidate& c) { return c.weight >= kSomeWeight; });
  if (TotalWeight({candidates.begin(), rest}) >= wanted) {
    candidates.erase(rest, candidates.end());
  }
  // A heap gives up only as many as the nucleus takes: no sort of the whole vocabulary.
  const auto unlikelier = [](const Candidate& a, const Candidate& b) { return Likelier(b, a); };
  std::make_heap(candidates.begin(), candidates.end(), unlikelier);
  std::vector<Candidate> nucleus;
  double sum = 0;
  while (!candidates.empty() && (nucleus.empty() || sum < wanted)) {
    std::pop_heap(candidates.begin(), candidates.end(), unlikelier);
    nucleus.push_back(candidates.back());
    sum += candidates.back().weight;
    candidates.pop_back();
  }
  candidates = std::move(nucleus);
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
