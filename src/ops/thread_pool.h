#pragma once

#include <functional>
#include <memory>

namespace ops {

// The one pool of compute threads of a process. ParallelFor is called by one thread at a time (the
// engine's); that thread takes part, so a pool of n runs n - 1 threads of its own. Workers
// spin a little before they sleep, since a model's operations follow each other within
// microseconds.
class ThreadPool {
 public:
  // REQUIRES: n_threads >= 1.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] int size() const { return n_threads_; }

  // Runs task(i) for each i in [0, n_tasks), each once, on any thread, in any order; returns when
  // all are done. `task` must not throw and must not call ParallelFor.
  void ParallelFor(int n_tasks, const std::function<void(int)>& task);

 private:
  struct State;
  int n_threads_;
  std::unique_ptr<State> state_;
};

}  // namespace ops
