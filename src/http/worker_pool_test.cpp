#include "http/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>

namespace http {
namespace {

TEST(WorkerPool, TasksThatBlockNeverWaitForEachOther) {
  std::atomic<int> done{0};
  {
    WorkerPool pool;
    for (int round = 0; round < 20; ++round) {
      std::latch all_run(17);
      for (int i = 0; i < 16; ++i) {
        pool.Run([&] {
          all_run.arrive_and_wait();  // hangs unless all 16 run at the same time
          ++done;
        });
      }
      all_run.arrive_and_wait();
      while (done < 16 * (round + 1)) {
        std::this_thread::yield();
      }
    }
    EXPECT_GE(pool.thread_count(), 16U);
    EXPECT_LE(pool.thread_count(), 40U);  // threads are used again
  }
  EXPECT_EQ(done, 320);
}

}  // namespace
}  // namespace http
