#include <array>
#include <cstring>

#include "ops/machine_speed/kernels.h"

namespace ops {
namespace {

constexpr std::size_t kStep = 512;
constexpr std::size_t kWords = kStep / sizeof(std::uint64_t);

std::uint64_t Read(const std::byte* data, std::size_t n) {
  std::array<std::uint64_t, kWords> sums = {};
  for (std::size_t at = 0; at < n; at += kStep) {
    std::array<std::uint64_t, kWords> words;
    std::memcpy(words.data(), data + at, kStep);
    for (std::size_t i = 0; i < kWords; ++i) {
      sums[i] += words[i];
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) {
    total += sum;
  }
  return total;
}

constexpr int kProducts = 64;

std::int32_t Multiply(std::int64_t n) {
  std::array<std::int8_t, kProducts> a;
  std::array<std::int8_t, kProducts> b;
  for (int i = 0; i < kProducts; ++i) {
    a[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i);
    b[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(3 * i);
  }
  std::int32_t sum = 0;
  for (std::int64_t round = 0; round < n; ++round) {
    a[0] = static_cast<std::int8_t>(round);  // no two rounds are alike
    for (std::size_t i = 0; i < kProducts; ++i) {
      sum += a[i] * b[i];
    }
  }
  return sum;
}

}  // namespace

const SpeedKernels kPlainSpeedKernels = {
    .read = &Read, .multiply = &Multiply, .products_a_round = kProducts};

}  // namespace ops
