#pragma once

#include <algorithm>

#include "ops/thread_pool.h"

namespace ops {

struct RowRange {
  int begin = 0;
  int end = 0;
};

// Calls work(range) for ranges that cover [0, n_rows), on the pool's threads. `row_cost`: floats a
// row touches.
template <class Work>
void SplitRows(ThreadPool& pool, int n_rows, int row_cost, const Work& work) {
  // About 2 to 5 us of work a task, so that handing it out (below 1 us) pays.
  constexpr int kTaskCost = 16384;
  const int rows_per_task = std::max(1, kTaskCost / std::max(1, row_cost));
  const int n_tasks = (n_rows + rows_per_task - 1) / rows_per_task;
  pool.ParallelFor(n_tasks, [&](int task) {
    const int begin = task * rows_per_task;
    work(RowRange{.begin = begin, .end = std::min(n_rows, begin + rows_per_task)});
  });
}

}  // namespace ops
