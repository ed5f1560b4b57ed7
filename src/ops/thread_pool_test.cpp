#include "ops/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace ops {
namespace {

TEST(ThreadPool, EachTaskRunsExactlyOnceForEveryPoolSize) {
  for (int n_threads = 1; n_threads <= 5; ++n_threads) {
    ThreadPool pool(n_threads);
    EXPECT_EQ(pool.size(), n_threads);
    for (int n_tasks = 0; n_tasks < 70; ++n_tasks) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n_tasks));
      pool.ParallelFor(n_tasks, [&](int i) { runs[static_cast<std::size_t>(i)].fetch_add(1); });
      for (const std::atomic<int>& count : runs) {
        ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ThreadPool, AllWritesOfTheTasksAreVisibleAfterTheCall) {
  ThreadPool pool(3);
  std::vector<int> values(64, 0);  // plain ints: the thread sanitizer judges the hand-over
  for (int round = 1; round <= 3000; ++round) {
    pool.ParallelFor(64, [&](int i) { values[static_cast<std::size_t>(i)] += i + round; });
  }
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(values[static_cast<std::size_t>(i)], 3000 * i + 3000 * 3001 / 2);
  }
}

TEST(ThreadPool, SleepingWorkersWakeForTheNextJob) {
  ThreadPool pool(2);
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // far beyond the spinning
    std::atomic<int> meeting{0};
    // Both tasks must run at once, or neither returns: a worker that slept on would hang here.
    pool.ParallelFor(2, [&](int) {
      meeting.fetch_add(1);
      while (meeting.load() < 2) {
        std::this_thread::yield();
      }
    });
    EXPECT_EQ(meeting.load(), 2);
  }
}

TEST(ThreadPool, AnUnusedPoolEnds) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(4);
  }
}

}  // namespace
}  // namespace ops
