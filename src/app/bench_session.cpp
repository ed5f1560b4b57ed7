#include "app/bench_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace app {

constexpr std::int64_t kStepTokens = 512;

BenchSession::BenchSession(engine::Engine& engine, int n_sequences, std::int64_t length)
    : engine_(engine), room_(length) {
  static std::uint64_t next_id = 1;  // ids name sequences across sessions; one thread benches
  for (int i = 0; i < n_sequences; ++i) {
    sequences_.push_back({.id = next_id++});
  }
}

BenchSession::~BenchSession() {
  for (const Sequence& sequence : sequences_) {
    for (std::size_t g = 0; g < sequence.block_tables.size(); ++g) {
      for (const ops::BlockId block : sequence.block_tables[g]) {
        engine_.blocks().Free(static_cast<int>(g), block);
      }
    }
  }
}

Result<void> BenchSession::Allocate() {
  ops::BlockStore& blocks = engine_.blocks();
  const std::int64_t n_blocks = (room_ + ops::kBlockTokens - 1) / ops::kBlockTokens;
  for (Sequence& sequence : sequences_) {
    sequence.block_tables.resize(blocks.groups().size());
    for (std::size_t g = 0; g < sequence.block_tables.size(); ++g) {
      for (std::int64_t i = 0; i < n_blocks; ++i) {
        const std::optional<ops::BlockId> block = blocks.Allocate(static_cast<int>(g));
        if (!block) {
          return Fail(ErrorCode::kOutOfMemory,
                      fmt::format("{} sequences of {} tokens do not fit in the KV cache of {}.",
                                  sequences_.size(), room_, FormatBytes(blocks.budget_bytes())));
        }
        sequence.block_tables[g].push_back(*block);
      }
    }
  }
  return {};
}

std::vector<TokenId> BenchSession::RandomTokens(std::int64_t n) {
  constexpr int kMargin = 100;  // special tokens are at the ends of a vocabulary
  const int vocab = engine_.vocab_size();
  const bool is_small = vocab <= 2 * kMargin;
  std::uniform_int_distribution<TokenId> any(is_small ? 0 : kMargin,
                                             is_small ? vocab - 1 : vocab - kMargin - 1);
  std::vector<TokenId> tokens(static_cast<std::size_t>(n));
  std::ranges::generate(tokens, [&] { return any(random_); });
  return tokens;
}

engine::StepSequence BenchSession::NextPart(Sequence& sequence, std::int64_t n, bool wants_logits) {
  engine::StepSequence part{.sequence_id = sequence.id,
                            .tokens = RandomTokens(n),
                            .first_position = sequence.length,
                            .block_tables = sequence.block_tables,
                            .wants_logits = wants_logits};
  sequence.length += n;
  return part;
}

Result<void> BenchSession::Prefill(int sequence, std::int64_t n) {
  for (std::int64_t done = 0; done < n;) {
    const std::int64_t step = std::min(kStepTokens, n - done);
    done += step;
    const auto logits = engine_.Forward(
        {NextPart(sequences_[static_cast<std::size_t>(sequence)], step, done == n)});
    if (!logits) {
      return Fail(logits.error());
    }
  }
  return {};
}

Result<void> BenchSession::Decode(std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::vector<engine::StepSequence> step;
    for (Sequence& sequence : sequences_) {
      step.push_back(NextPart(sequence, 1, /*wants_logits=*/true));
    }
    if (const auto logits = engine_.Forward(step); !logits) {
      return Fail(logits.error());
    }
  }
  return {};
}

}  // namespace app
