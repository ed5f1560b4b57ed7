#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "engine/sampler_select.h"

namespace engine {
namespace {

constexpr float kImpossible = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();
// Reported where a logprob is minus infinity, which JSON cannot say; the value OpenAI's API uses.
constexpr float kLowestLogprob = -9999.0F;

std::uint64_t SystemSeed() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32) | device();
}

void RemoveNonFinite(std::span<float> logits) {
  for (float& logit : logits) {  // without branches: vector code
    const float bounded = logit < kLargest ? logit : kLargest;
    logit = logit == logit ? bounded : kImpossible;  // NaN is unequal to itself
  }
}

bool AnyPossible(std::span<const float> logits) {
  return std::any_of(logits.begin(), logits.end(), [](float logit) { return logit > kImpossible; });
}

void MaskAllowed(std::span<float> logits, std::span<const std::uint32_t> allowed) {
  constexpr std::size_t kBits = 32;
  for (std::size_t begin = 0; begin < logits.size(); begin += kBits) {
    const std::uint32_t word = begin / kBits < allowed.size() ? allowed[begin / kBits] : 0;
    const auto some = logits.subspan(begin, std::min(kBits, logits.size() - begin));
    for (std::size_t j = 0; ~word != 0 && j < some.size(); ++j) {
      some[j] = ((word >> j) & 1U) != 0 ? some[j] : kImpossible;
    }
  }
}

// Makes everything impossible that may not come. When nothing would be left: keeps the forbidden
// tokens (the constraint allows only them), then any allowed token, then anything, so that there is
// always something to choose.
void Mask(std::span<float> logits, std::span<const std::uint32_t> allowed,
          std::span<const TokenId> forbidden) {
  if (!allowed.empty()) {
    MaskAllowed(logits, allowed);
  }
  std::vector<std::pair<std::size_t, float>> removed;
  for (const TokenId token : forbidden) {
    const auto i = static_cast<std::size_t>(token);
    if (token >= 0 && i < logits.size() && logits[i] > kImpossible) {
      removed.emplace_back(i, logits[i]);
      logits[i] = kImpossible;
    }
  }
  if (AnyPossible(logits)) {
    return;
  }
  for (const auto& [i, logit] : removed) {
    logits[i] = logit;
  }
  if (removed.empty()) {
    std::fill(logits.begin(), logits.end(), 0.0F);
    if (!allowed.empty()) {
      MaskAllowed(logits, allowed);
    }
  }
}

}  // namespace

Sampler::Sampler(SamplingParams params, std::span<const TokenId> prompt)
    : params_(std::move(params)), seed_(params_.seed ? *params_.seed : SystemSeed()) {
  if (params_.repetition_penalty != 1.0) {
    for (const TokenId token : prompt) {
      See(token);
    }
  }
}

SampledToken Sampler::Sample(std::span<float> logits, std::span<const std::uint32_t> allowed,
                             std::span<const TokenId> forbidden) {
  RemoveNonFinite(logits);
  std::vector<float> raw;
  if (params_.logprobs) {
    raw.assign(logits.begin(), logits.end());
  }
  Mask(logits, allowed, forbidden);
  for (const auto& [token, bias] : params_.logit_bias) {
    if (token >= 0 && static_cast<std::size_t>(token) < logits.size()) {
      logits[static_cast<std::size_t>(token)] += static_cast<float>(bias);
    }
  }
  Penalize(logits);

  SampledToken sampled;
  sampled.token = Choose(logits);
  Report(sampled, raw);
  if (params_.presence_penalty != 0.0 || params_.frequency_penalty != 0.0) {
    ++reply_counts_[sampled.token];
  }
  if (params_.repetition_penalty != 1.0) {
    See(sampled.token);
  }
  return sampled;
}

void Sampler::Penalize(std::span<float> logits) const {
  const auto change = [&](TokenId token, const auto& penalized) {
    const auto i = static_cast<std::size_t>(token);
    if (i < logits.size() && logits[i] > kImpossible) {
      // No factor that a client sends makes a token impossible, or NaN.
      logits[i] = static_cast<float>(
          std::clamp<double>(penalized(static_cast<double>(logits[i])), -kLargest, kLargest));
    }
  };
  const double factor = params_.repetition_penalty;
  for (const TokenId token : seen_) {
    change(token, [factor](double logit) { return logit > 0 ? logit / factor : logit * factor; });
  }
  for (const auto& [token, count] : reply_counts_) {
    const double penalty = params_.presence_penalty + params_.frequency_penalty * count;
    change(token, [penalty](double logit) { return logit - penalty; });
  }
}

TokenId Sampler::Choose(std::span<float> logits) {
  const TokenId best = ArgMax(logits);
  if (params_.temperature <= 0.0) {
    return best;
  }
  const float largest = logits[static_cast<std::size_t>(best)];
  if (largest == kImpossible) {
    return best;
  }
  // Each filter works on what the one before it left; min_p comes last, and compares with the
  // likeliest token, which no filter removes.
  const double u = UniformAt(seed_, draws_++);
  std::vector<Candidate> candidates;
  if (params_.top_k > 0) {
    candidates = TopK(logits, static_cast<std::size_t>(params_.top_k));
    SetWeights(candidates, largest, params_.temperature);
    if (params_.top_p < 1.0) {
      KeepTopP(candidates, params_.top_p * TotalWeight(candidates));
    }
  } else {
    const Weights weights(logits, largest, params_.temperature);
    if (params_.top_p < 1.0) {
      candidates = weights.TopP(params_.top_p);
    } else if (params_.min_p > 0.0) {
      candidates = weights.AtLeast(static_cast<float>(params_.min_p));
    } else {
      return weights.Draw(u);
    }
  }
  if (params_.min_p > 0.0) {
    KeepMinP(candidates, params_.min_p);
  }
  return Draw(candidates, u);
}

void Sampler::See(TokenId token) {
  if (token < 0) {
    return;
  }
  const auto i = static_cast<std::size_t>(token);
  if (i >= is_seen_.size()) {
    is_seen_.resize(i + 1, false);
  }
  if (!is_seen_[i]) {
    is_seen_[i] = true;
    seen_.push_back(token);
  }
}

// Log-softmax of the model's own logits, which are used up.
void Sampler::Report(SampledToken& sampled, std::span<float> raw) const {
  if (raw.empty()) {
    return;
  }
  const float largest = raw[static_cast<std::size_t>(ArgMax(raw))];
  const float chosen = raw[static_cast<std::size_t>(sampled.token)];
  const std::vector<Candidate> top =
      TopK(raw, static_cast<std::size_t>(std::max(0, params_.top_logprobs)));
  if (largest == kImpossible) {
    sampled.logprob = kLowestLogprob;
    return;
  }
  const double log_total = std::log(Weights(raw, largest, /*temperature=*/1.0).total());
  const auto logprob = [&](float logit) {
    return std::max(kLowestLogprob, static_cast<float>(static_cast<double>(logit) -
                                                       static_cast<double>(largest) - log_total));
  };
  sampled.logprob = logprob(chosen);
  for (const Candidate& candidate : top) {
    sampled.top_logprobs.push_back({.token = candidate.token, .logprob = logprob(candidate.logit)});
  }
}

}  // namespace engine
