#include "scheduler/mask_ahead.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace scheduler {

MaskAhead::~MaskAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

void MaskAhead::Begin(std::vector<TokenConstraint*> constraints) {
  if (constraints.empty()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
    for (TokenConstraint* constraint : constraints) {
      jobs_.push_back({.constraint = constraint});
    }
    next_ = 0;
  }
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { Work(); });
  }
  changed_.notify_all();
}

Result<std::span<const std::uint32_t>> MaskAhead::Wait(TokenConstraint& constraint) {
  std::unique_lock lock(mutex_);
  const auto job = std::ranges::find(jobs_, &constraint, &Job::constraint);
  assert(job != jobs_.end());
  changed_.wait(lock, [&] { return job->done; });
  if (job->thrown) {
    std::rethrow_exception(job->thrown);
  }
  return *job->mask;
}

void MaskAhead::Finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return std::ranges::all_of(jobs_, &Job::done); });
  jobs_.clear();
}

void MaskAhead::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || next_ < jobs_.size(); });
    if (stopping_) {
      return;
    }
    Job& job = jobs_[next_++];  // stays in place: Begin comes only after Finish
    lock.unlock();
    Ask(job);
    lock.lock();
    job.done = true;
    changed_.notify_all();
  }
}

void MaskAhead::Ask(Job& job) {
  try {
    job.mask = job.constraint->AllowedTokens();
  } catch (...) {
    job.thrown = std::current_exception();  // the engine thread's own net catches it
  }
}

}  // namespace scheduler
