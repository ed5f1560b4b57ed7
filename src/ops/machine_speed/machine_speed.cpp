#include "ops/machine_speed/machine_speed.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>

#include "ops/machine_speed/kernels.h"

namespace ops {
namespace {

constexpr int kTries = 5;
constexpr std::size_t kBytes = std::size_t{256} << 20U;  // more than any cache holds
constexpr std::size_t kPart = std::size_t{1} << 20U;     // one task's
constexpr std::int64_t kRounds = 1 << 16;
constexpr int kTasksAThread = 16;

struct FreeAligned {
  void operator()(std::byte* data) const { ::operator delete[](data, std::align_val_t(64)); }
};

// Least seconds of several tries.
double BestOf(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    best = std::min(best, elapsed.count());
  }
  return best;
}

}  // namespace

MachineSpeed MeasureMachine(ThreadPool& pool, InstructionSet set) {
  const SpeedKernels& kernels = SpeedKernelsFor(set);
  std::atomic<std::uint64_t> sink = 0;  // keeps the compiler from leaving the work out
  MachineSpeed speed;
  {
    const std::unique_ptr<std::byte[], FreeAligned> data(new (std::align_val_t(64))
                                                             std::byte[kBytes]);
    const int n_parts = static_cast<int>(kBytes / kPart);
    const auto part = [&](int i) { return data.get() + static_cast<std::size_t>(i) * kPart; };
    pool.ParallelFor(n_parts, [&](int i) { std::fill_n(part(i), kPart, std::byte{1}); });
    const double seconds = BestOf(
        [&] { pool.ParallelFor(n_parts, [&](int i) { sink += kernels.read(part(i), kPart); }); });
    speed.read_bytes_per_s = static_cast<double>(kBytes) / seconds;
  }
  const int n_tasks = kTasksAThread * pool.size();
  const std::int64_t rounds = set == InstructionSet::kPlain ? kRounds / 8 : kRounds;
  const double seconds = BestOf([&] {
    pool.ParallelFor(n_tasks,
                     [&](int) { sink += static_cast<std::uint64_t>(kernels.multiply(rounds)); });
  });
  speed.int8_ops_per_s =
      2.0 * static_cast<double>(rounds) * kernels.products_a_round * n_tasks / seconds;
  return speed;
}

}  // namespace ops
