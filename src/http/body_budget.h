#pragma once

#include <atomic>
#include <cstdint>

namespace http {

// Bytes of request bodies that a server holds, read or being read. Thread-safe.
class BodyBudget {
 public:
  explicit BodyBudget(std::uint64_t limit) : limit_(limit) {}

  // One request's part, given back at its end. Used by one thread at a time.
  class Share {
   public:
    explicit Share(BodyBudget& budget) : budget_(budget) {}
    ~Share() { budget_.used_ -= bytes_; }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    // Makes this part `bytes`, which never shrink; false, and nothing changed, when that is more
    // than the budget has left. The server's only body always fits: one limit is enough for it.
    [[nodiscard]] bool Grow(std::uint64_t bytes) {
      const std::uint64_t more = bytes - bytes_;
      const std::uint64_t before = budget_.used_.fetch_add(more);
      if (before != bytes_ && before + more > budget_.limit_) {
        budget_.used_ -= more;
        return false;
      }
      bytes_ = bytes;
      return true;
    }

   private:
    BodyBudget& budget_;
    std::uint64_t bytes_ = 0;
  };

 private:
  std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
};

}  // namespace http
