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

// Cuts candidates (in any order, with weights) to the smallest set of the likeliest that together
// weigh at least `wanted`; at least one stays. Likeliest first then.
void KeepTopP(std::vector<Candidate>& candidates, double wanted);

// Removes those less likely than `min_p` times the likeliest. REQUIRES: weights, of which the
// largest is 1.
void KeepMinP(std::vector<Candidate>& candidates, double min_p);

// Sum of the weights.
[[nodiscard]] double TotalWeight(std::span<const Candidate> candidates);

// The candidate in whose share of the whole weight `u` [0, 1) falls, in the order given. REQUIRES:
// not empty.
[[nodiscard]] TokenId Draw(std::span<const Candidate> candidates, double u);

// The weights of a whole vocabulary, in the place of its logits. In float32 (relative error below
// 1e-5), since a sampler works through 262k of them for every token.
class Weights {
 public:
  // REQUIRES: temperature > 0; `largest` is the largest logit and finite; no NaN. `logits` are
  // overwritten and must outlive this.
  Weights(std::span<float> logits, float largest, double temperature);

  [[nodiscard]] double total() const { return total_; }

  // Those of at least `weight` > 0, by id. Their logit is their weight: it orders them likewise.
  [[nodiscard]] std::vector<Candidate> AtLeast(float weight) const;

  // The smallest set of the likeliest whose share of the total is at least `top_p`, in some order.
  [[nodiscard]] std::vector<Candidate> TopP(double top_p) const;

  // As Draw of them all, by id.
  [[nodiscard]] TokenId Draw(double u) const;

 private:
  struct Bounds {
    float lower = 0;
    float upper = 0;
  };
  [[nodiscard]] Bounds FindTopP(double wanted) const;

  std::span<const float> weights_;
  std::vector<double> block_sums_;
  double total_ = 0;
};

// Number `draw` of the random stream named by `seed`: uniform in [0, 1), 53 bits. Counter-based
// (SplitMix64, Steele, Lea and Flood 2014), so that nothing but seed and count matters.
[[nodiscard]] double UniformAt(std::uint64_t seed, std::uint64_t draw);

}  // namespace engine
