#include "ops/native_op.h"

#include <mlx/allocator.h>
#include <mlx/device.h>
#include <mlx/ops.h>

#include <cassert>
#include <cstddef>

namespace ops {
namespace {

using mlx::core::array;

// The values of `a`, row by row in memory.
array Ready(array a) {
  a.eval();
  if (!a.flags().row_contiguous) {
    a = mlx::core::contiguous(a, false, mlx::core::Device::cpu);
    a.eval();
  }
  return a;
}

array Uninitialised(const mlx::core::Shape& shape, mlx::core::Dtype dtype) {
  std::size_t bytes = mlx::core::size_of(dtype);
  for (const int n : shape) {
    bytes *= static_cast<std::size_t>(n);
  }
  return array(mlx::core::allocator::malloc(bytes), shape, dtype);
}

}  // namespace

std::vector<array> NativeOp(const std::vector<array>& inputs,
                            const std::vector<mlx::core::Shape>& shapes,
                            const std::vector<mlx::core::Dtype>& dtypes,
                            const NativeKernel& kernel) {
  assert(shapes.size() == dtypes.size() && !shapes.empty());
  std::vector<array> in;
  in.reserve(inputs.size());
  for (const array& input : inputs) {
    in.push_back(Ready(input));
  }
  std::vector<array> out;
  out.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    out.push_back(Uninitialised(shapes[i], dtypes[i]));
  }
  kernel(in, out);
  return out;
}

array NativeOp(const std::vector<array>& inputs, const mlx::core::Shape& shape,
               mlx::core::Dtype dtype, const NativeKernel& kernel) {
  return NativeOp(inputs, std::vector<mlx::core::Shape>{shape}, {dtype}, kernel).front();
}

}  // namespace ops
