#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/token_constraint.h"
#include "engine/sampler.h"

namespace scheduler {

enum class Priority { kInteractive, kBackground };

// One sequence to generate.
struct Request {
  std::vector<TokenId> prompt = {};  // not empty
  int max_tokens = 0;                // >= 1
  engine::SamplingParams sampling = {};
  // End the text. The token itself comes as the last event, with finish kStop, and counts as a
  // completion token.
  std::vector<TokenId> stop_token_ids = {};
  bool ignore_eos =
      false;  // stop_token_ids are not sampled, unless the constraint allows nothing else
  std::unique_ptr<TokenConstraint> constraint = nullptr;  // may be null
  std::string cache_salt = {};
  // Positions of the prompt where later ones are likely to part from it, such as the beginning of
  // its last user message: hints for the bank.
  std::vector<std::int64_t> boundaries = {};
  Priority priority = Priority::kInteractive;
};

enum class FinishReason {
  kStop,       // a stop token
  kLength,     // max_tokens
  kCancelled,  // TokenStream::Cancel or a shutdown
};

// How long things took and where the prompt came from.
struct RequestStats {
  std::int64_t prompt_tokens = 0;
  std::int64_t cached_tokens = 0;  // of them found in the bank when first admitted
  std::int64_t disk_tokens = 0;    // of those, restored from the disk for it
  std::int64_t remote_tokens = 0;  // ... and from the shared tier

  [[nodiscard]] std::int64_t memory_tokens() const {
    return cached_tokens - disk_tokens - remote_tokens;
  }
  std::int64_t completion_tokens = 0;
  double restore_ms =
      0;                 // from the first read for it to the last block in memory; part of queue_ms
  double queue_ms = 0;   // submitted to admitted
  double prompt_ms = 0;  // admitted to first token
  double predicted_ms = 0;  // first token to last
};

}  // namespace scheduler
