#include "ops/rope/rope.h"

#include <mlx/ops.h>

#include <cmath>

#include "ops/native_op.h"
#include "ops/vector/row_kernels.h"
#include "ops/vector/row_split.h"

namespace ops {
namespace {

namespace mx = mlx::core;

mx::array ReferenceRope(const mx::array& x, const mx::array& angles) {
  const int rotary_dim = angles.shape(-1);
  const int half = rotary_dim / 2;
  const int n_rows = x.shape(0);
  const int n_heads = x.shape(1);
  const int head_dim = x.shape(2);
  const mx::array cos = mx::slice(angles, {0, 0}, {n_rows, half});
  const mx::array sin = mx::slice(angles, {0, half}, {n_rows, rotary_dim});
  const mx::array c = mx::expand_dims(cos, 1);
  const mx::array s = mx::expand_dims(sin, 1);
  const mx::array a = mx::slice(x, {0, 0, 0}, {n_rows, n_heads, half});
  const mx::array b = mx::slice(x, {0, 0, half}, {n_rows, n_heads, rotary_dim});
  std::vector<mx::array> parts{mx::subtract(mx::multiply(a, c), mx::multiply(b, s)),
                               mx::add(mx::multiply(b, c), mx::multiply(a, s))};
  if (rotary_dim < head_dim) {
    parts.push_back(mx::slice(x, {0, 0, rotary_dim}, {n_rows, n_heads, head_dim}));
  }
  return mx::concatenate(parts, -1);
}

}  // namespace

mx::array RopeAngles(const RopeSpec& spec, std::span<const std::int32_t> positions) {
  const std::size_t half = spec.inv_freq.size();
  std::vector<float> angles(positions.size() * 2 * half);
  for (std::size_t t = 0; t < positions.size(); ++t) {
    float* const row = angles.data() + t * 2 * half;
    for (std::size_t i = 0; i < half; ++i) {
      // In double and then rounded, so that the result does not depend on the C library.
      const auto angle = static_cast<double>(static_cast<float>(positions[t]) * spec.inv_freq[i]);
      row[i] = static_cast<float>(std::cos(angle)) * spec.attention_factor;
      row[half + i] = static_cast<float>(std::sin(angle)) * spec.attention_factor;
    }
  }
  return mx::array(angles.data(), {static_cast<int>(positions.size()), static_cast<int>(2 * half)},
                   mx::float32);
}

mx::array Rope(const Context& context, const mx::array& x, const mx::array& angles) {
  if (context.path == KernelPath::kReference) {
    return ReferenceRope(x, angles);
  }
  const int n_heads = x.shape(1);
  const int head_dim = x.shape(2);
  const int rotary_dim = angles.shape(-1);
  return NativeOp(
      {x, angles}, x.shape(), mx::float32,
      [=](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
        const int row_size = n_heads * head_dim;
        SplitRows(*context.pool, in[0].shape(0), row_size, [&](RowRange range) {
          RowKernelsFor(context.instruction_set)
              .rope(
                  {.x = in[0].data<float>() + static_cast<std::ptrdiff_t>(range.begin) * row_size,
                   .angles =
                       in[1].data<float>() + static_cast<std::ptrdiff_t>(range.begin) * rotary_dim,
                   .y = out[0].data<float>() + static_cast<std::ptrdiff_t>(range.begin) * row_size,
                   .n_rows = range.end - range.begin,
                   .n_heads = n_heads,
                   .head_dim = head_dim,
                   .rotary_dim = rotary_dim});
        });
      });
}

}  // namespace ops
