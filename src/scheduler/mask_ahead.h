#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/result.h"
#include "base/token_constraint.h"

namespace scheduler {

// Asks constraints for their masks on a thread of its own, while the engine computes the logits
// that they are for. The thread starts with the first constraint. Used by one thread.
class MaskAhead {
 public:
  MaskAhead() = default;
  ~MaskAhead();
  MaskAhead(const MaskAhead&) = delete;
  MaskAhead& operator=(const MaskAhead&) = delete;

  // REQUIRES: finished. The constraints, each once, are the thread's until Wait or Finish.
  void Begin(std::vector<TokenConstraint*> constraints);
  // The mask of one of them; throws what it threw. REQUIRES: it was given to the last Begin.
  [[nodiscard]] Result<std::span<const std::uint32_t>> Wait(TokenConstraint& constraint);
  // Until none of them is asked any more.
  void Finish();

 private:
  using Mask = Result<std::span<const std::uint32_t>>;
  struct Job {
    TokenConstraint* constraint = nullptr;
    std::optional<Mask> mask = {};
    std::exception_ptr thrown = nullptr;
    bool done = false;
  };

  void Work();
  static void Ask(Job& job);

  std::mutex mutex_;  // guards what follows, but for the constraint of the job in work
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  std::size_t next_ = 0;  // job to work on; beyond the last: none
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace scheduler
