#include "ops/rms_norm/rms_norm.h"

#include <mlx/fast.h>
#include <mlx/ops.h>

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
                                           float eps) {
  if (context.path == KernelPath::kReference) {
    const mx::array sum = mx::add(residual, x);
    return {mx::fast::rms_norm(sum, weight, eps), sum};
  }
  const int d = x.shape(-1);
  const std::vector<mx::array> results =
      NativeOp({x, residual, weight}, {x.shape(), x.shape()}, {mx::float32, mx::float32},
               [context, d, eps](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                 const NormRows all{.x = in[0].data<float>(),
                                    .residual = in[1].data<float>(),
                                    .weight = in[2].data<float>(),
                                    .sum = out[1].data<float>(),
                                    .y = out[0].data<float>(),
                                    .n_rows = static_cast<int>(in[0].size()) / d,
                                    .d = d,
                                    .eps = eps};
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

}  // namespace ops
