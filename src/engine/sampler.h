#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/token_constraint.h"

namespace engine {

// How the next token is chosen. Defaults change nothing.
struct SamplingParams {
  double temperature = 1.0;         // 0 = greedy (lowest id on a tie)
  double top_p = 1.0;               // (0, 1]
  int top_k = 0;                    // 0 or -1 = off
  double min_p = 0.0;               // [0, 1]
  double presence_penalty = 0.0;    // OpenAI: subtracted once for a token in the reply so far
  double frequency_penalty = 0.0;   // OpenAI: subtracted per occurrence in the reply so far
  double repetition_penalty = 1.0;  // Keskar et al. 2019 (CTRL): over prompt and reply
  std::map<TokenId, double> logit_bias = {};
  std::optional<std::uint64_t> seed = {};
  bool logprobs = false;
  int top_logprobs = 0;  // alternatives reported per token
};

struct TokenLogprob {
  TokenId token = 0;
  float logprob = 0;
};

struct SampledToken {
  TokenId token = 0;
  float logprob = 0;  // of the model's own distribution, before temperature; only with logprobs
  std::vector<TokenLogprob> top_logprobs = {};  // descending
};

// One sequence's sampler: its own random stream, independent of the batch it is in. Without a seed
// it draws one from the system. Order as in the field: constraint, bias, penalties, temperature,
// top_k, top_p, min_p, draw.
class Sampler {
 public:
  // `prompt`: for repetition_penalty.
  Sampler(SamplingParams params, std::span<const TokenId> prompt);

  // `logits` [vocab_size] are used up; NaN counts as impossible. `allowed`: bitset of
  // TokenConstraint, or empty (all); ids beyond it are not allowed. `forbidden`: ids that must not
  // come now (end tokens under ignore_eos or min_tokens), unless the constraint allows nothing
  // else. When every token is impossible the likeliest allowed one comes. REQUIRES: logits not
  // empty.
  [[nodiscard]] SampledToken Sample(std::span<float> logits, std::span<const std::uint32_t> allowed,
                                    std::span<const TokenId> forbidden);

 private:
  [[nodiscard]] TokenId Choose(std::span<float> logits);
  void Penalize(std::span<float> logits) const;
  void See(TokenId token);
  void Report(SampledToken& sampled, std::span<float> raw) const;

  SamplingParams params_;
  std::map<TokenId, int> reply_counts_;  // only with presence or frequency penalty
  std::vector<bool> is_seen_;  // by token id, prompt and reply; only with repetition_penalty
  std::vector<TokenId> seen_;  // the ids that are set there
  std::uint64_t seed_ = 0;
  std::uint64_t draws_ = 0;
};

}  // namespace engine
