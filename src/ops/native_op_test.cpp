#include "ops/native_op.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace ops {
namespace {

using mlx::core::array;
using mlx::core::Shape;

array Doubled(const array& x) {
  return NativeOp({x}, x.shape(), mlx::core::float32,
                  [](const std::vector<array>& in, std::vector<array>& out) {
                    for (std::size_t i = 0; i < in[0].size(); ++i) {
                      out[0].data<float>()[i] = 2 * in[0].data<float>()[i];
                    }
                  });
}

std::vector<float> Values(array a) {
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

TEST(NativeOp, ChainsWithItselfAndWithMlxOperations) {
  array x = mlx::core::add(array({1.0F, 2.0F}), array(1.0F));
  for (int i = 0; i < 25; ++i) {
    x = mlx::core::multiply(Doubled(x), array(0.5F));
  }
  EXPECT_EQ(Values(x), (std::vector<float>{2, 3}));
}

TEST(NativeOp, KernelsSeeRowContiguousInputsWhateverTheGraphMadeOfThem) {
  const array x({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, Shape{2, 3});
  EXPECT_EQ(Values(Doubled(mlx::core::transpose(x))), (std::vector<float>{2, 8, 4, 10, 6, 12}));
  array evaluated = mlx::core::transpose(x);
  evaluated.eval();
  EXPECT_EQ(Values(Doubled(evaluated)), (std::vector<float>{2, 8, 4, 10, 6, 12}));
  EXPECT_EQ(Values(Doubled(mlx::core::broadcast_to(array(7.0F), Shape{3}))),
            (std::vector<float>{14, 14, 14}));
}

TEST(NativeOp, SeveralOutputsComeInOrder) {
  const array x({5.0F, 9.0F});
  std::vector<array> out =
      NativeOp({x}, {Shape{1}, Shape{1, 1}}, {mlx::core::float32, mlx::core::int32},
               [](const std::vector<array>& in, std::vector<array>& outs) {
                 outs[0].data<float>()[0] = in[0].data<float>()[0];
                 outs[1].data<int>()[0] = static_cast<int>(in[0].data<float>()[1]);
               });
  mlx::core::eval(out);
  EXPECT_EQ(out[0].item<float>(), 5.0F);
  EXPECT_EQ(out[1].item<int>(), 9);
}

TEST(NativeOp, WhatAKernelThrowsReachesTheCaller) {
  const auto failing = [](const std::vector<array>&, std::vector<array>&) {
    throw std::runtime_error("no");
  };
  EXPECT_THROW((void)NativeOp({}, Shape{3}, mlx::core::float32, failing), std::runtime_error);
  EXPECT_EQ(Values(Doubled(array({1.0F}))), (std::vector<float>{2}));
}

}  // namespace
}  // namespace ops
