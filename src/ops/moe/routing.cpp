#include "ops/moe/routing.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "ops/native_op.h"
#include "ops/vector/row_split.h"

namespace ops {
namespace {

namespace mx = mlx::core;

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

std::size_t Size(int n) { return static_cast<std::size_t>(n); }

// Chooses for one row after another; keeps its working memory.
class RowRouter {
 public:
  RowRouter(const RoutingSpec& spec, const float* correction)
      : spec_(spec),
        correction_(correction),
        scores_(Size(spec.n_experts)),
        choice_(Size(spec.n_experts)) {}

  void Route(const float* logits, std::int32_t* experts, float* weights) {
    Score(logits);
    for (int i = 0; i < spec_.n_experts; ++i) {
      choice_[Size(i)] =
          correction_ != nullptr ? scores_[Size(i)] + correction_[i] : scores_[Size(i)];
    }
    if (spec_.n_groups > 1) {
      ExcludeGroups();
    }
    Best(choice_.data(), spec_.n_experts, spec_.n_chosen, experts);
    float sum = spec_.sum_epsilon;
    for (int j = 0; j < spec_.n_chosen; ++j) {
      weights[j] = scores_[Size(experts[j])];
      sum += weights[j];
    }
    for (int j = 0; j < spec_.n_chosen; ++j) {
      weights[j] = (spec_.normalised ? weights[j] / sum : weights[j]) * spec_.scale;
    }
  }

 private:
  void Score(const float* logits) {
    if (spec_.score == RouterScore::kSigmoid) {
      for (int i = 0; i < spec_.n_experts; ++i) {
        scores_[Size(i)] = 1.0F / (1.0F + std::exp(-logits[i]));
      }
      return;
    }
    const float max = *std::max_element(logits, logits + spec_.n_experts);
    float sum = 0.0F;
    for (int i = 0; i < spec_.n_experts; ++i) {
      scores_[Size(i)] = std::exp(logits[i] - max);
      sum += scores_[Size(i)];
    }
    for (float& score : scores_) {
      score /= sum;
    }
  }

  void ExcludeGroups() {
    const int size = spec_.n_experts / spec_.n_groups;
    std::vector<float> sums;
    for (int g = 0; g < spec_.n_groups; ++g) {
      const float* group = choice_.data() + Size(g) * Size(size);
      std::int32_t two[2] = {};
      Best(group, size, 2, two);
      sums.push_back(group[two[0]] + group[two[1]]);
    }
    std::vector<std::int32_t> kept(Size(spec_.n_chosen_groups));
    Best(sums.data(), spec_.n_groups, spec_.n_chosen_groups, kept.data());
    for (int g = 0; g < spec_.n_groups; ++g) {
      if (std::ranges::find(kept, g) == kept.end()) {
        std::fill_n(choice_.data() + Size(g) * Size(size), size, kExcluded);
      }
    }
  }

  // The numbers of the `count` largest of n values, the largest first. Distinct whatever the values
  // are, NaN too.
  static void Best(const float* values, int n, int count, std::int32_t* best) {
    int found = 0;
    for (std::int32_t i = 0; i < n; ++i) {
      int at = found;
      while (at > 0 && values[i] > values[best[at - 1]]) {
        --at;
      }
      if (at == count) {
        continue;
      }
      found = std::min(found + 1, count);
      std::copy_backward(best + at, best + found - 1, best + found);
      best[at] = i;
    }
  }

  const RoutingSpec& spec_;
  const float* correction_;    // [n_experts] or null
  std::vector<float> scores_;  // [n_experts]
  std::vector<float> choice_;  // with the correction
};

Routing NativeRoute(const Context& context, const RoutingSpec& spec, const mx::array& logits,
                    const std::optional<mx::array>& correction) {
  std::vector<mx::array> inputs = {logits};
  if (correction) {
    inputs.push_back(*correction);
  }
  const int n_rows = logits.shape(0);
  const std::vector<mx::array> out = NativeOp(
      inputs, {{n_rows, spec.n_chosen}, {n_rows, spec.n_chosen}}, {mx::int32, mx::float32},
      [&](const std::vector<mx::array>& in, std::vector<mx::array>& results) {
        constexpr int kExpertCost = 8;  // of one exponential and a comparison, in floats touched
        SplitRows(*context.pool, n_rows, kExpertCost * spec.n_experts, [&](RowRange range) {
          RowRouter router(spec, in.size() > 1 ? in[1].data<float>() : nullptr);
          for (std::ptrdiff_t row = range.begin; row < range.end; ++row) {
            router.Route(in[0].data<float>() + row * spec.n_experts,
                         results[0].data<std::int32_t>() + row * spec.n_chosen,
                         results[1].data<float>() + row * spec.n_chosen);
          }
        });
      });
  return {.experts = out[0], .weights = out[1]};
}

// The numbers of the `count` largest along the last axis, the largest first.
mx::array Largest(const mx::array& values, int count) {
  mx::Shape begin(values.ndim(), 0);
  mx::Shape end = values.shape();
  end.back() = count;
  return mx::slice(mx::argsort(mx::negative(values), -1), begin, end);
}

// `scores` with kExcluded outside the chosen groups.
mx::array WithinGroups(const RoutingSpec& spec, const mx::array& scores) {
  const int n_rows = scores.shape(0);
  const int size = spec.n_experts / spec.n_groups;
  const mx::array groups = mx::reshape(scores, {n_rows, spec.n_groups, size});
  const mx::array sums = mx::sum(mx::take_along_axis(groups, Largest(groups, 2), -1), -1);
  const mx::array kept = Largest(sums, spec.n_chosen_groups);
  const mx::array inside =
      mx::put_along_axis(mx::zeros({n_rows, spec.n_groups}, mx::bool_), kept, mx::array(true), -1);
  return mx::reshape(mx::where(mx::expand_dims(inside, -1), groups, mx::array(kExcluded)),
                     {n_rows, spec.n_experts});
}

Routing ReferenceRoute(const RoutingSpec& spec, const mx::array& logits,
                       const std::optional<mx::array>& correction) {
  const mx::array scores =
      spec.score == RouterScore::kSigmoid ? mx::sigmoid(logits) : mx::softmax(logits, -1, true);
  mx::array choice = correction ? mx::add(scores, *correction) : scores;
  if (spec.n_groups > 1) {
    choice = WithinGroups(spec, choice);
  }
  const mx::array experts = mx::astype(Largest(choice, spec.n_chosen), mx::int32);
  mx::array weights = mx::take_along_axis(scores, experts, -1);
  if (spec.normalised) {
    weights = mx::divide(
        weights, mx::add(mx::sum(weights, -1, /*keepdims=*/true), mx::array(spec.sum_epsilon)));
  }
  return {.experts = experts, .weights = mx::multiply(weights, mx::array(spec.scale))};
}

}  // namespace

Routing Route(const Context& context, const RoutingSpec& spec, const mx::array& logits,
              const std::optional<mx::array>& correction) {
  return context.path == KernelPath::kReference ? ReferenceRoute(spec, logits, correction)
                                                : NativeRoute(context, spec, logits, correction);
}

}  // namespace ops
