#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/token_constraint.h"

namespace engine {

// A token that may be drawn.
struct Candidate {
  TokenId token = 0;
  float logit = 0;
  double weight = 0;  // exp((logit - largest logit) / temperature)
};

// Order of preference: higher logit, then lower id.
[[nodiscard]] inline bool Likelier(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The id of the largest logit, the lowest on a tie. REQUIRES: not empty, no NaN.
[[nodiscard]] TokenId ArgMax(std::span<const float> logits);

// The `k` likeliest tokens, likeliest first, without -inf; fewer when there are fewer. One pass
// over the logits with a heap of k, so a vocabulary of 262k costs little more than reading it.
// `weight` is left 0.
[[nodiscard]] std::vector<Candidate> TopK(std::span<const float> logits, std::size_t k);

// Fills in the weights. REQUIRES: temperature > 0; `largest` is the largest logit.
void SetWeights(std::span<Candidate> candidates, float largest, double temperature);

// Cuts candidates (in any order, with weights) to the smallest set of the likeliest whose share of
// the whole weight is at least `top_p`; at least one stays. Likeliest first then.
void KeepTopP(std::vector<Candidate>& candidates, double top_p);

// Removes those less likely than `min_p` times the likeliest. REQUIRES: weights, of which the
// largest is 1.
void KeepMinP(std::vector<Candidate>& candidates, double min_p);

// The candidate in whose share of the whole weight `u` [0, 1) falls, in the order given. REQUIRES:
// not empty.
[[nodiscard]] TokenId Draw(std::span<const Candidate> candidates, double u);

// Number `draw` of the random stream named by `seed`: uniform in [0, 1), 53 bits. Counter-based
// (SplitMix64, Steele, Lea and Flood 2014), so that nothing but seed and count matters.
[[nodiscard]] double UniformAt(std::uint64_t seed, std::uint64_t draw);

}  // namespace engine
