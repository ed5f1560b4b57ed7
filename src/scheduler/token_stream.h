#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/sampler.h"
#include "scheduler/request.h"

namespace scheduler {

// One thing that happened to a sequence.
struct TokenEvent {
  int sequence = 0;  // index in the vector given to Submit (the choices of n > 1)
  std::optional<engine::SampledToken> token = {};
  std::optional<FinishReason> finish =
      {};                           // last event of the sequence (may come with its last token)
  std::optional<Error> error = {};  // last event of the sequence
};

// The reader's end of one Submit: events of all its sequences in order. Thread-safe; destroying it
// cancels what still runs.
class TokenStream {
 public:
  struct Shared;
  explicit TokenStream(std::shared_ptr<Shared> shared);
  ~TokenStream();
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) = delete;
  TokenStream(const TokenStream&) = delete;
  TokenStream& operator=(const TokenStream&) = delete;

  // Waits up to `timeout` for the next event. Empty: nothing came in time (ask again) or all
  // sequences have ended.
  [[nodiscard]] std::optional<TokenEvent> Next(std::chrono::milliseconds timeout);

  // All sequences have ended and their events were read.
  [[nodiscard]] bool finished() const;

  // Ends one sequence (or all, -1) within a step. Its finish event still comes.
  void Cancel(int sequence = -1);

  // Numbers of one sequence; final once its last event was read. cached_tokens is known with the
  // first token.
  [[nodiscard]] RequestStats stats(int sequence) const;

 private:
  // shared: the scheduler writes until the sequence ends, the reader may leave earlier
  std::shared_ptr<Shared> shared_;
};

}  // namespace scheduler
