#include "ops/rms_norm/rms_norm.h"

#include <mlx/fast.h>
#include <mlx/ops.h>

#include <algorithm>

#include "ops/native_op.h"
#include "ops/vector/row_kernels.h"
#include "ops/vector/row_split.h"

namespace ops {

namespace mx = mlx::core;

mx::array RmsNorm(const Context& context, const mx::array& x, const mx::array& weight, float eps) {
  if (context.path == KernelPath::kReference) {
    return mx::fast::rms_norm(x, weight, eps);
  }
  const int d = x.shape(-1);
  return NativeOp({x, weight}, x.shape(), mx::float32,
                  [context, d, eps](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    const NormRows all{.x = in[0].data<float>(),
                                       .weight = in[1].data<float>(),
                                       .y = out[0].data<float>(),
                                       .n_rows = static_cast<int>(in[0].size()) / d,
                                       .d = d,
                                       .eps = eps};
                    SplitRows(*context.pool, all.n_rows, d, [&](RowRange range) {
                      NormRows part = all;
                      const std::ptrdiff_t skipped = static_cast<std::ptrdiff_t>(range.begin) * d;
                      part.x += skipped;
                      part.y += skipped;
                      part.n_rows = range.end - range.begin;
                      RowKernelsFor(context.instruction_set).rms_norm(part);
                    });
                  });
}

std::pair<mx::array, mx::array> AddRmsNorm(const Context& context, const mx::array& x,
                                           const mx::array& residual, const mx::array& weight,
                                           float eps, float x_scale) {
  if (context.path == KernelPath::kReference) {
    const mx::array sum =
        mx::add(residual, x_scale == 1.0F ? x : mx::multiply(x, mx::array(x_scale)));
    return {mx::fast::rms_norm(sum, weight, eps), sum};
  }
  const int d = x.shape(-1);
  const std::vector<mx::array> results = NativeOp(
      {x, residual, weight}, {x.shape(), x.shape()}, {mx::float32, mx::float32},
      [context, d, eps, x_scale](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
        const NormRows all{.x = in[0].data<float>(),
                           .residual = in[1].data<float>(),
                           .weight = in[2].data<float>(),
                           .sum = out[1].data<float>(),
                           .y = out[0].data<float>(),
                           .n_rows = static_cast<int>(in[0].size()) / d,
                           .d = d,
                           .eps = eps,
                           .x_scale = x_scale};
        SplitRows(*context.pool, all.n_rows, d, [&](RowRange range) {
          NormRows part = all;
          const std::ptrdiff_t skipped = static_cast<std::ptrdiff_t>(range.begin) * d;
          part.x += skipped;
          part.residual += skipped;
          part.sum += skipped;
          part.y += skipped;
          part.n_rows = range.end - range.begin;
          RowKernelsFor(context.instruction_set).add_rms_norm(part);
        });
      });
  return {results[0], results[1]};
}

mx::array RmsNormColumns(const Context& context, const mx::array& x,
                         const std::vector<mx::array>& weights, float eps) {
  const int d = x.shape(-1);
  const int n_rows = x.shape(0);
  if (context.path == KernelPath::kReference) {
    std::vector<mx::array> parts;
    int begin = 0;
    for (const mx::array& weight : weights) {
      const int end = begin + weight.shape(0);
      parts.push_back(mx::fast::rms_norm(mx::slice(x, {0, begin}, {n_rows, end}), weight, eps));
      begin = end;
    }
    parts.push_back(mx::slice(x, {0, begin}, {n_rows, d}));
    return mx::concatenate(parts, -1);
  }
  std::vector<mx::array> inputs = {x};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return NativeOp(inputs, x.shape(), mx::float32,
                  [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    SplitRows(*context.pool, n_rows, d, [&](RowRange range) {
                      for (int row = range.begin; row < range.end; ++row) {
                        const float* from =
                            in[0].data<float>() + static_cast<std::ptrdiff_t>(row) * d;
                        const float* const end = from + d;
                        float* to = out[0].data<float>() + static_cast<std::ptrdiff_t>(row) * d;
                        for (std::size_t i = 1; i < in.size(); ++i) {
                          const int n = in[i].shape(0);
                          RowKernelsFor(context.instruction_set)
                              .rms_norm({.x = from,
                                         .weight = in[i].data<float>(),
                                         .y = to,
                                         .n_rows = 1,
                                         .d = n,
                                         .eps = eps});
                          from += n;
                          to += n;
                        }
                        std::copy(from, end, to);
                      }
                    });
                  });
}

}  // namespace ops
