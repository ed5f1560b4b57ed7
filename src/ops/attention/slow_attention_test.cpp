// The judge of the attention tests: softmax(q k) v by its definition.

#include <cmath>

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

double Stored(const Case& c, double x) {
  return c.dtype == KvDtype::kF32
             ? x
             : static_cast<double>(HalfToFloat(FloatToSaturatedHalf(static_cast<float>(x))));
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
    for (int p = 0; p < n; ++p) {
      const float* row = qkv.data() + static_cast<std::ptrdiff_t>(p) * c.RowSize();
      keys.push_back(Prepared(c, row + (c.n_heads + kv) * c.head_dim, c.NormWeight(2), p));
      const std::vector<double> q = Prepared(c, row + h * c.head_dim, c.NormWeight(1), p);
      const int from = c.window == 0 ? 0 : std::max(0, p - c.window + 1);
      std::vector<double> weights;
      double total = 0.0;
      for (int j = from; j <= p; ++j) {
        double score = 0.0;
        for (int d = 0; d < c.head_dim; ++d) {
          score += q[static_cast<std::size_t>(d)] *
                   Stored(c, keys[static_cast<std::size_t>(j)][static_cast<std::size_t>(d)]);
        }
        weights.push_back(std::exp(score * scale));
        total += weights.back();
      }
      for (int j = from; j <= p; ++j) {
        const float* v = qkv.data() + static_cast<std::ptrdiff_t>(j) * c.RowSize() +
                         (c.n_heads + c.n_kv_heads + kv) * c.head_dim;
        for (int d = 0; d < c.head_dim; ++d) {
          out[static_cast<std::size_t>(p * c.OutSize() + h * c.head_dim + d)] +=
              weights[static_cast<std::size_t>(j - from)] / total *
              Stored(c, static_cast<double>(v[d]));
        }
      }
    }
  }
  return out;
}

}  // namespace ops::testing
