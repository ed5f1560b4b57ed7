#include "ops/thread_pool.h"

#include <atomic>
#include <cassert>
#include <cstdint>
#include <thread>
#include <vector>

#include "ops/cpu_relax.h"

namespace ops {
namespace {

// About 40 us of pauses (20 to 70 ns each on the machines we know): longer than the gaps between
// the operations of one model step, shorter than anybody notices in the load of an idle server.
constexpr int kSpins = 1000;

}  // namespace

// Invariants:
//  1. `unclaimed` > 0 only while a ParallelFor runs; who decrements it from n to n - 1 owns task
//  n_tasks - n.
//  2. `task` and `n_tasks` are written only when every task of the last job is counted in `done`,
//  and read only
//     between a claim and its count in `done`. A late worker that finds unclaimed == 0 reads
//     neither.
//  3. `generation` changes after `unclaimed` was set, so that a worker which saw the old value
//  finds work.
struct ThreadPool::State {
  alignas(64) std::atomic<int> unclaimed{0};
  alignas(64) std::atomic<int> done{0};
  alignas(64) std::atomic<std::uint32_t> generation{0};
  std::atomic<bool> stopping{false};
  const std::function<void(int)>* task = nullptr;
  int n_tasks = 0;
  std::vector<std::thread> workers;

  // Runs tasks until none is unclaimed.
  void Drain() {
    int left = unclaimed.load(std::memory_order_relaxed);
    while (left > 0) {
      if (!unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
        continue;
      }
      (*task)(n_tasks - left);
      done.fetch_add(1, std::memory_order_release);
      left = unclaimed.load(std::memory_order_relaxed);
    }
  }

  // Returns when `generation` is no longer `seen`.
  void AwaitGeneration(std::uint32_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      if (generation.load(std::memory_order_acquire) != seen) {
        return;
      }
      CpuRelax();
    }
    generation.wait(seen, std::memory_order_acquire);
  }

  void Work() {
    std::uint32_t seen = 0;
    while (true) {
      AwaitGeneration(seen);
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) {
        return;
      }
      Drain();
    }
  }

  void Announce() {
    generation.fetch_add(1);
    generation.notify_all();
  }
};

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads), state_(std::make_unique<State>()) {
  assert(n_threads >= 1);
  for (int i = 1; i < n_threads; ++i) {
    state_->workers.emplace_back([state = state_.get()] { state->Work(); });
  }
}

ThreadPool::~ThreadPool() {
  state_->stopping.store(true, std::memory_order_relaxed);
  state_->Announce();
  for (std::thread& worker : state_->workers) {
    worker.join();
  }
}

void ThreadPool::ParallelFor(int n_tasks, const std::function<void(int)>& task) {
  if (n_threads_ == 1 || n_tasks <= 1) {
    for (int i = 0; i < n_tasks; ++i) {
      task(i);
    }
    return;
  }
  State& state = *state_;
  state.task = &task;
  state.n_tasks = n_tasks;
  state.done.store(0, std::memory_order_relaxed);
  state.unclaimed.store(n_tasks, std::memory_order_release);
  state.Announce();
  state.Drain();
  for (int spins = 0; state.done.load(std::memory_order_acquire) != n_tasks; ++spins) {
    // The last tasks run elsewhere; if that thread lost its core, give ours.
    if (spins < kSpins) {
      CpuRelax();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace ops
