#include "ops/native_op.h"

#include <mlx/allocator.h>
#include <mlx/backend/cpu/encoder.h>
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/primitives.h>
#include <mlx/stream.h>

#include <cstring>
#include <exception>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/log.h"

namespace ops {
namespace {

using mlx::core::array;

void RunGuarded(const char* name, const NativeKernel& kernel, const std::vector<array>& inputs,
                std::vector<array>& outputs) {
  try {
    kernel(inputs, outputs);
  } catch (const std::exception& error) {
    spdlog::error("[{}] the kernel failed: {}", name, error.what());
    for (array& out : outputs) {
      std::memset(out.data<char>(), 0, out.nbytes());
    }
  }
}

class NativePrimitive final : public mlx::core::Primitive {
 public:
  NativePrimitive(mlx::core::Stream stream, const char* name, NativeKernel kernel)
      : Primitive(stream),
        name_(name),
        kernel_(std::make_shared<const NativeKernel>(std::move(kernel))) {}

  void eval_cpu(const std::vector<array>& inputs, std::vector<array>& outputs) override {
    // MLX keeps the buffers of inputs and outputs until the task has run, but not this primitive
    // nor the array nodes: those are captured as weak copies, and the kernel by its shared pointer.
    std::vector<array> in;
    in.reserve(inputs.size());
    for (const array& input : inputs) {
      in.push_back(array::unsafe_weak_copy(input));
    }
    std::vector<array> out;
    out.reserve(outputs.size());
    for (array& output : outputs) {
      output.set_data(mlx::core::allocator::malloc(output.nbytes()));
      out.push_back(array::unsafe_weak_copy(output));
    }
    mlx::core::cpu::get_command_encoder(stream()).dispatch(
        [name = name_, kernel = kernel_, in = std::move(in), out = std::move(out)]() mutable {
          RunGuarded(name, *kernel, in, out);
        });
  }

  void eval_gpu(const std::vector<array>& /*inputs*/, std::vector<array>& /*outputs*/) override {
    throw std::runtime_error("[NativeOp] native kernels run on the CPU only");
  }

  const char* name() const override { return name_; }

 private:
  const char* name_;
  std::shared_ptr<const NativeKernel> kernel_;  // shared with the task, which may outlive the node
};

// Adds a copy only where the layout is not known to be right: a graph node costs about a
// microsecond.
array RowContiguous(const array& a, mlx::core::Stream stream) {
  const bool computed = a.status() != array::Status::unscheduled;
  if (computed ? a.flags().row_contiguous
               : a.has_primitive() && dynamic_cast<NativePrimitive*>(&a.primitive()) != nullptr) {
    return a;
  }
  return mlx::core::contiguous(a, false, stream);
}

}  // namespace

std::vector<array> NativeOp(const char* name, const std::vector<array>& inputs,
                            std::vector<mlx::core::Shape> shapes,
                            const std::vector<mlx::core::Dtype>& dtypes, NativeKernel kernel) {
  const mlx::core::Stream stream = mlx::core::default_stream(mlx::core::Device::cpu);
  std::vector<array> contiguous;
  contiguous.reserve(inputs.size());
  for (const array& input : inputs) {
    contiguous.push_back(RowContiguous(input, stream));
  }
  return array::make_arrays(std::move(shapes), dtypes,
                            std::make_shared<NativePrimitive>(stream, name, std::move(kernel)),
                            contiguous);
}

array NativeOp(const char* name, const std::vector<array>& inputs, mlx::core::Shape shape,
               mlx::core::Dtype dtype, NativeKernel kernel) {
  return NativeOp(name, inputs, std::vector<mlx::core::Shape>{std::move(shape)}, {dtype},
                  std::move(kernel))
      .front();
}

}  // namespace ops
