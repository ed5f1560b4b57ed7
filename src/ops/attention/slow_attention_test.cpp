// The judge of the attention tests: softmax(q k) v by its definition.

#include <algorithm>
#include <cmath>
#include <span>

#include "ops/attention/test_support.h"
#include "ops/vector/saturated_half.h"

namespace ops::testing {
namespace {

// Norm and rotation of one head.
std::vector<double> Prepared(const Case& c, const float* x, const std::vector<float>& norm,
                             int position) {
  std::vector<double> y(x, x + c.head_dim);
  if (c.norms) {
    double sum = 0.0;
    for (const double v : y) {
      sum += v * v;
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      y[i] *= static_cast<double>(norm[i]) / std::sqrt(sum / c.head_dim + 1e-6);
    }
  }
  const RopeSpec rope = c.Rope();
  const std::size_t half = rope.inv_freq.size();
  for (std::size_t i = 0; i < half; ++i) {
    const auto angle = static_cast<double>(static_cast<float>(position) * rope.inv_freq[i]);
    const double a = y[i];
    const double b = y[i + half];
    y[i] = a * std::cos(angle) - b * std::sin(angle);
    y[i + half] = b * std::cos(angle) + a * std::sin(angle);
  }
  return y;
}

double Half(double x) {
  return static_cast<double>(HalfToFloat(FloatToSaturatedHalf(static_cast<float>(x))));
}

// One head's K or V as it is read back.
std::vector<double> Stored(const Case& c, std::vector<double> x) {
  if (c.dtype == KvDtype::kF32) {
    return x;
  }
  if (c.dtype == KvDtype::kF16) {
    std::ranges::transform(x, x.begin(), Half);
    return x;
  }
  const std::size_t group = c.dtype == KvDtype::kI8 ? x.size() : std::size_t{kI4Group};
  for (std::size_t g = 0; g < x.size(); g += group) {
    const std::span<double> values = std::span(x).subspan(g, group);
    const auto [least, most] = std::ranges::minmax(values);
    const bool is_i8 = c.dtype == KvDtype::kI8;
    const double scale = is_i8 ? std::max(-least, most) / 127 : Half((most - least) / 15);
    const double zero = is_i8 ? 0.0 : Half(least);
    for (double& value : values) {
      const double number = scale > 0 ? std::nearbyint((value - zero) / scale) : 0.0;
      value = zero + scale * std::clamp(number, is_i8 ? -127.0 : 0.0, is_i8 ? 127.0 : 15.0);
    }
  }
  return x;
}

}  // namespace

std::vector<double> SlowAttention(const Case& c) {
  const std::vector<float> qkv = c.Qkv(0);
  const int n = c.lengths[0];
  const double scale = c.Spec().scale;
  std::vector<double> out(static_cast<std::size_t>(n * c.OutSize()));
  for (int h = 0; h < c.n_heads; ++h) {
    const int kv = h / (c.n_heads / c.n_kv_heads);
    std::vector<std::vector<double>> keys;
    std::vector<std::vector<double>> values;
    for (int p = 0; p < n; ++p) {
      const float* row = qkv.data() + static_cast<std::ptrdiff_t>(p) * c.RowSize();
      keys.push_back(
          Stored(c, Prepared(c, row + (c.n_heads + kv) * c.head_dim, c.NormWeight(2), p)));
      const float* v = row + (c.n_heads + c.n_kv_heads + kv) * c.head_dim;
      values.push_back(Stored(c, std::vector<double>(v, v + c.head_dim)));
      const std::vector<double> q = Prepared(c, row + h * c.head_dim, c.NormWeight(1), p);
      const int from = c.window == 0 ? 0 : std::max(0, p - c.window + 1);
      std::vector<double> weights;
      double total = c.sinks ? std::exp(double{c.Sinks()[static_cast<std::size_t>(h)]}) : 0.0;
      for (int j = from; j <= p; ++j) {
        double score = 0.0;
        for (int d = 0; d < c.head_dim; ++d) {
          score += q[static_cast<std::size_t>(d)] *
                   keys[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)];
        }
        weights.push_back(std::exp(score * scale));
        total += weights.back();
      }
      for (int j = from; j <= p; ++j) {
        for (int d = 0; d < c.head_dim; ++d) {
          out[static_cast<std::size_t>(p * c.OutSize() + h * c.head_dim + d)] +=
              weights[static_cast<std::size_t>(j - from)] / total *
              values[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)];
        }
      }
    }
  }
  return out;
}

}  // namespace ops::testing
