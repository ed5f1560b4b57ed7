#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace http {

// Threads that may block: each task gets one at once. A thread whose task has ended waits for the
// next; there are never more of them than tasks ran at the same time.
class WorkerPool {
 public:
  WorkerPool() = default;
  // Waits for all tasks.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // `task` must not throw. Thread-safe. Throws std::system_error when the system gives no thread.
  void Run(std::function<void()> task);

  [[nodiscard]] std::size_t thread_count() const;

 private:
  void Work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<std::function<void()>> tasks_;
  std::size_t idle_ = 0;  // threads that wait, not yet promised to a task
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace http
