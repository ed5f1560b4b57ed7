#pragma once

#include <cstdint>

#include "scheduler/request.h"

namespace api {

// What a request used, summed over its choices.
struct Usage {
  std::int64_t prompt_tokens = 0;      // of each prompt once, though n choices share it
  std::int64_t cached_tokens = 0;      // of them found in the bank
  std::int64_t disk_tokens = 0;        // of those, restored from the disk for this request
  std::int64_t remote_tokens = 0;      // ... and from the shared tier

  [[nodiscard]] std::int64_t memory_tokens() const {
    return cached_tokens - disk_tokens - remote_tokens;
  }
  std::int64_t completion_tokens = 0;  // end tokens included
  double ttft_ms = 0;                  // submitted to first token; 0 when there was none
  scheduler::RequestStats timings;     // of the first choice
};

}  // namespace api
