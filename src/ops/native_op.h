#pragma once

#include <mlx/array.h>
#include <mlx/dtype.h>

#include <functional>
#include <vector>

namespace ops {

// What a native operation computes, from row-contiguous inputs into outputs that are allocated,
// row-contiguous and uninitialised; it fills every element. May use ThreadPool::ParallelFor.
using NativeKernel = std::function<void(const std::vector<mlx::core::array>& inputs,
                                        std::vector<mlx::core::array>& outputs)>;

// Runs `kernel` at once, on the calling thread; inputs that are still a graph are evaluated first,
// those that are not row-contiguous are copied. A model step is some hundred operations of a few
// microseconds: as nodes of MLX's graph they cost several microseconds each to build and hand over,
// and a third busy thread beside the pool's. What the
// kernel throws reaches the caller. REQUIRES: shapes.size() == dtypes.size() >= 1.
[[nodiscard]] std::vector<mlx::core::array> NativeOp(const std::vector<mlx::core::array>& inputs,
                                                     const std::vector<mlx::core::Shape>& shapes,
                                                     const std::vector<mlx::core::Dtype>& dtypes,
                                                     const NativeKernel& kernel);

// The same with one output.
[[nodiscard]] mlx::core::array NativeOp(const std::vector<mlx::core::array>& inputs,
                                        const mlx::core::Shape& shape, mlx::core::Dtype dtype,
                                        const NativeKernel& kernel);

}  // namespace ops
