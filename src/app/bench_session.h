#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"

namespace app {

// Sequences of random tokens on an engine, with blocks of their own.
class BenchSession {
 public:
  // Room for `n_sequences` sequences of `length` tokens. `engine` must outlive it.
  BenchSession(engine::Engine& engine, int n_sequences, std::int64_t length);
  ~BenchSession();
  BenchSession(const BenchSession&) = delete;
  BenchSession& operator=(const BenchSession&) = delete;

  // Takes the blocks. Error: kOutOfMemory, both sizes named.
  [[nodiscard]] Result<void> Allocate();

  // Adds `n` tokens to one sequence, in steps of 512; logits of the last.
  [[nodiscard]] Result<void> Prefill(int sequence, std::int64_t n);
  // Adds `n` tokens to every sequence, one a step; logits of each.
  [[nodiscard]] Result<void> Decode(std::int64_t n);

 private:
  struct Sequence {
    std::uint64_t id = 0;
    std::int64_t length = 0;  // tokens computed
    std::vector<std::vector<ops::BlockId>> block_tables = {};
  };
  [[nodiscard]] std::vector<TokenId> RandomTokens(std::int64_t n);
  [[nodiscard]] engine::StepSequence NextPart(Sequence& sequence, std::int64_t n,
                                              bool wants_logits);

  engine::Engine& engine_;
  std::int64_t room_;
  std::vector<Sequence> sequences_;
  std::mt19937 random_{1};
};

}  // namespace app
