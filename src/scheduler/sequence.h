#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cache/prefix_cache.h"
#include "engine/sampler.h"
#include "scheduler/request.h"
#include "scheduler/stream_state.h"

namespace scheduler {

// A sequence from Submit to its end. Made by the submitting thread, then owned by the engine
// thread.
struct Sequence {
  Sequence(std::uint64_t sequence_id, Request sequence_request, int sequence_index,
           std::shared_ptr<TokenStream::Shared> sequence_stream, Clock::TimePoint now)
      : id(sequence_id),
        request(std::move(sequence_request)),
        index(sequence_index),
        stream(std::move(sequence_stream)),
        sampler(request.sampling, request.prompt),
        tokens(std::move(request.prompt)),
        submitted(now) {
    stats.prompt_tokens = static_cast<std::int64_t>(tokens.size());
  }

  std::uint64_t id;
  Request request;                              // its prompt has moved to `tokens`
  int index;                                    // in its Submit
  std::shared_ptr<TokenStream::Shared> stream;  // the reader may leave before the sequence ends
  engine::Sampler sampler;
  std::vector<TokenId> tokens;  // prompt and reply

  // While waiting.
  cache::PrefixKeys prefix_keys;

  // While running.
  cache::Lease lease;
  std::int64_t computed = 0;    // positions whose K and V are in the lease's blocks
  std::uint64_t admission = 0;  // larger = younger

  // While waiting.
  std::optional<cache::PrefixCache::RestoreId> restore = {};
  Clock::TimePoint restore_began{};
  bool is_restoring = false;  // as of the last step
  int restores_left = 3;      // asking once more brings what a joined restore did not

  bool was_admitted = false;
  bool preempted = false;
  bool promoted = false;  // an interactive sequence waits for its prefix
  RequestStats stats;
  Clock::TimePoint submitted;
  Clock::TimePoint admitted{};
  Clock::TimePoint first_token{};

  [[nodiscard]] std::int64_t remaining() const {
    return static_cast<std::int64_t>(tokens.size()) - computed;
  }
  [[nodiscard]] bool is_cancelled() const {
    return stream->cancelled[static_cast<std::size_t>(index)];
  }
  [[nodiscard]] bool is_stop_token(TokenId token) const {
    for (const TokenId stop : request.stop_token_ids) {
      if (stop == token) {
        return true;
      }
    }
    return false;
  }
};

}  // namespace scheduler
