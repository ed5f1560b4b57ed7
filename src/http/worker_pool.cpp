#include "http/worker_pool.h"

#include <utility>

namespace http {

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void WorkerPool::Run(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(std::move(task));
  if (idle_ > 0) {
    --idle_;
    changed_.notify_one();
    return;
  }
  try {
    threads_.emplace_back([this] { Work(); });
  } catch (...) {
    tasks_.pop_back();  // no thread is promised to it
    throw;
  }
}

// A new thread comes with a task of its own; an idle one is counted off by Run.
void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) {
      return;
    }
    {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }
    lock.lock();
    ++idle_;
  }
}

std::size_t WorkerPool::thread_count() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

}  // namespace http
