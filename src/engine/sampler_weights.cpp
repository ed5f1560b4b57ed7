// A whole vocabulary's weights: loops that compilers turn into vector code, and no sort.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "engine/sampler_select.h"

namespace engine {
namespace {

constexpr std::size_t kBlock = 512;  // weights summed together: a drawn token is looked for in one
constexpr std::size_t kLanes = 16;
constexpr float kLowestExponent = -125.0F;  // weights from here down are 0

// 2^x for -125 <= x <= 0, relative error below 2e-7; 0 at -125. As ops/vector/vector_math.h, whose
// kernels need an instruction set chosen at run time; plain multiplications and additions here, so
// that every x86-64 runs four at once.
float Exp2(float x) {
  constexpr float kShift = 12582912.0F;  // 1.5 * 2^23 leaves the nearest whole number in low bits
  const float shifted = x + kShift;
  const float f = x - (shifted - kShift);  // [-0.5, 0.5]
  float p = 0.00132647273F;
  p = p * f + 0.00967151299F;
  p = p * f + 0.0555073358F;
  p = p * f + 0.240222424F;
  p = p * f + 0.693147004F;
  p = p * f + 1.0F;
  const std::uint32_t scaled =
      std::bit_cast<std::uint32_t>(p) + (std::bit_cast<std::uint32_t>(shifted) << 23U);
  // At the lowest, f is 0 and this 2^-125 exactly: that much less makes it 0, and no other weight
  // notices.
  return std::bit_cast<float>(scaled) - 0x1p-125F;
}

double Sum(std::span<const float> weights) {
  float sums[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= weights.size(); i += kLanes) {
    for (std::size_t j = 0; j < kLanes; ++j) {
      sums[j] += weights[i + j];
    }
  }
  double sum = 0;
  for (const float part : sums) {
    sum += part;
  }
  for (; i < weights.size(); ++i) {
    sum += weights[i];
  }
  return sum;
}

bool AnyAtLeast(std::span<const float> weights, float least) {
  int found = 0;
  for (const float weight : weights) {
    found |= weight >= least ? 1 : 0;
  }
  return found != 0;
}

}  // namespace

Weights::Weights(std::span<float> logits, float largest, double temperature) : weights_(logits) {
  // A tiny temperature must not become infinite: the likeliest token has 0 times this.
  constexpr double kSteepest = 1e30;
  const auto scale = static_cast<float>(std::min(std::numbers::log2e / temperature, kSteepest));
  block_sums_.reserve(logits.size() / kBlock + 1);
  for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const std::span<float> block = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    // Apart: the compiler would make a branch of its own for the bound, and no vector code.
    for (float& value : block) {
      const float exponent = (value - largest) * scale;
      value = exponent > kLowestExponent ? exponent : kLowestExponent;
    }
    for (float& value : block) {
      value = Exp2(value);
    }
    block_sums_.push_back(Sum(block));
    total_ += block_sums_.back();
  }
}

std::vector<Candidate> Weights::AtLeast(float weight) const {
  std::vector<Candidate> candidates;
  for (std::size_t begin = 0; begin < weights_.size(); begin += kLanes) {
    const auto some = weights_.subspan(begin, std::min(kLanes, weights_.size() - begin));
    if (!AnyAtLeast(some, weight)) {
      continue;
    }
    for (std::size_t j = 0; j < some.size(); ++j) {
      if (some[j] >= weight) {
        candidates.push_back({.token = static_cast<TokenId>(begin + j),
                              .logit = some[j],
                              .weight = static_cast<double>(some[j])});
      }
    }
  }
  return candidates;
}

std::vector<Candidate> Weights::TopP(double top_p) const {
  // Nearly always the nucleus lies within those of some weight, a few hundred of a whole
  // vocabulary.
  constexpr float kSomeWeight = 1e-4F;
  const double wanted = top_p * total_;
  std::vector<Candidate> candidates = AtLeast(kSomeWeight);
  if (TotalWeight(candidates) >= wanted) {
    KeepTopP(candidates, wanted);
    return candidates;
  }
  // Only those about as likely as the nucleus's last have to be put in order.
  const Bounds bounds = FindTopP(wanted);
  candidates = AtLeast(bounds.lower);
  const auto surely = std::partition(candidates.begin(), candidates.end(),
                                     [&](const Candidate& c) { return c.logit >= bounds.upper; });
  std::vector<Candidate> last(surely, candidates.end());
  candidates.erase(surely, candidates.end());
  KeepTopP(last, wanted - TotalWeight(candidates));
  candidates.insert(candidates.end(), last.begin(), last.end());
  return candidates;
}

// The class of a histogram in which the sum of the weights from above comes to `wanted`.
Weights::Bounds Weights::FindTopP(double wanted) const {
  constexpr std::uint32_t kShift = 17;  // keeps the exponent and 6 bits: classes 1.6 % apart
  constexpr std::uint32_t kClassOfOne = std::bit_cast<std::uint32_t>(1.0F) >> kShift;
  std::vector<double> sums(kClassOfOne + 1, 0.0);
  for (const float weight : weights_) {
    sums[std::bit_cast<std::uint32_t>(weight) >> kShift] += static_cast<double>(weight);
  }
  double sum = 0;
  std::uint32_t at = kClassOfOne + 1;
  while (at > 1 && sum < wanted) {
    sum += sums[--at];
  }
  return {.lower = std::max(std::bit_cast<float>(at << kShift), std::numeric_limits<float>::min()),
          .upper = std::bit_cast<float>((at + 1) << kShift)};
}

TokenId Weights::Draw(double u) const {
  const double target = u * total_;
  std::size_t block = 0;
  double sum = 0;
  for (; block + 1 < block_sums_.size() && sum + block_sums_[block] <= target; ++block) {
    sum += block_sums_[block];
  }
  // Rounding may leave the target behind the block's end, or in a last block of zeros: then the
  // last possible token comes.
  const std::size_t begin = block * kBlock;
  const std::size_t end = std::min(begin + kBlock, weights_.size());
  for (std::size_t i = begin; i < end; ++i) {
    sum += weights_[i];
    if (sum > target && weights_[i] > 0) {
      return static_cast<TokenId>(i);
    }
  }
  std::size_t last = end;
  while (last > 1 && !(weights_[last - 1] > 0)) {
    --last;
  }
  return static_cast<TokenId>(last - 1);
}

}  // namespace engine
