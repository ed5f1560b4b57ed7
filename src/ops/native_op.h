#pragma once

#include <mlx/array.h>
#include <mlx/dtype.h>

#include <functional>
#include <vector>

namespace ops {

// What a native operation computes. Runs on the thread of MLX's CPU stream, with all inputs
// computed and the outputs allocated, row-contiguous and uninitialised; it fills every element. May
// use ThreadPool::ParallelFor. It keeps alive by capture what it needs besides the arrays, and must
// not throw (an exception is caught, logged, and the outputs are zeros).
using NativeKernel = std::function<void(const std::vector<mlx::core::array>& inputs,
                                        std::vector<mlx::core::array>& outputs)>;

// A node of MLX's graph that runs `kernel` on the calling thread's default CPU stream. The kernel
// sees the inputs row-contiguous: those that are not are copied first. `name` must be a string
// literal. Never runs on a GPU. REQUIRES: shapes.size() == dtypes.size() >= 1; inputs of the same
// thread's streams, or evaluated ones.
[[nodiscard]] std::vector<mlx::core::array> NativeOp(const char* name,
                                                     const std::vector<mlx::core::array>& inputs,
                                                     std::vector<mlx::core::Shape> shapes,
                                                     const std::vector<mlx::core::Dtype>& dtypes,
                                                     NativeKernel kernel);

// The same with one output.
[[nodiscard]] mlx::core::array NativeOp(const char* name,
                                        const std::vector<mlx::core::array>& inputs,
                                        mlx::core::Shape shape, mlx::core::Dtype dtype,
                                        NativeKernel kernel);

}  // namespace ops
