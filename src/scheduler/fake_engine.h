#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace scheduler {

inline constexpr int kFakeVocab = 50;

// In place of a window: a recurrent group, whose blocks hold the state after their last token only.
inline constexpr int kRecurrent = -1;

// What a block of the fake engine remembers of a position: its token, and a hash of all tokens up
// to it.
struct FakePosition {
  TokenId token = -1;
  std::uint64_t history = 0;
  bool operator==(const FakePosition&) const = default;
};

inline std::uint64_t FakeMix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t z = (a ^ (b + 0x9e3779b97f4a7c15U + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9U;
  return z ^ (z >> 29);
}

// Logits out of all that the token at the end of the history may see, group by group. The likeliest
// token stands out clearly; the others are possible at a high temperature.
inline std::vector<float> FakeLogits(std::uint64_t seen) {
  std::vector<float> logits(kFakeVocab);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(FakeMix(seen, i) % 1000) / 500.0F;
  }
  logits[seen % kFakeVocab] += 3.0F;
  return logits;
}

// The slow twin: logits after `tokens`, from the tokens alone.
inline std::vector<float> TwinLogits(const std::vector<TokenId>& tokens,
                                     const std::vector<int>& windows) {
  std::vector<FakePosition> positions;
  std::uint64_t history = 0;
  for (const TokenId token : tokens) {
    history = FakeMix(history, static_cast<std::uint64_t>(token));
    positions.push_back({.token = token, .history = history});
  }
  std::uint64_t seen = 0;
  for (const int window : windows) {
    if (window == kRecurrent) {
      seen = FakeMix(seen, history);
      continue;
    }
    const std::size_t first = window == 0 || tokens.size() < static_cast<std::size_t>(window)
                                  ? 0
                                  : tokens.size() - static_cast<std::size_t>(window);
    for (std::size_t i = first; i < positions.size(); ++i) {
      seen = FakeMix(seen, positions[i].history + static_cast<std::uint64_t>(positions[i].token));
    }
  }
  return FakeLogits(seen);
}

// Blocks with content. A free poisons it, so that use after it gives a wrong text.
class FakeStore final : public ops::BlockStore {
 public:
  struct Block {
    std::array<FakePosition, ops::kBlockTokens> positions{};
    int filled = 0;
  };

  FakeStore(const std::vector<int>& windows, std::uint64_t budget_bytes)
      : budget_bytes_(budget_bytes) {
    for (std::size_t g = 0; g < windows.size(); ++g) {
      const bool is_recurrent = windows[g] == kRecurrent;
      groups_.push_back({.layers = {static_cast<int>(g)},
                         .window = is_recurrent ? ops::kStateWindow : windows[g],
                         .state_floats = is_recurrent ? 1 : 0});
    }
  }
  ~FakeStore() override { EXPECT_TRUE(blocks_.empty()) << "blocks leaked"; }
  const std::vector<ops::LayerGroup>& groups() const override { return groups_; }
  std::uint64_t BlockBytes(int group) const override { return group == 0 ? 1000 : 700; }
  std::optional<ops::BlockId> Allocate(int group) override {
    if (used_bytes_ + BlockBytes(group) > budget_bytes_) {
      return std::nullopt;
    }
    used_bytes_ += BlockBytes(group);
    blocks_[{group, next_}];
    return next_++;
  }
  void Free(int group, ops::BlockId block) override {
    EXPECT_EQ(blocks_.erase({group, block}), 1U) << "freed though not there";
    used_bytes_ -= BlockBytes(group);
  }
  // A byte for a token and eight for its history; a block that is not full is a violation.
  void CopyOut(int group, ops::BlockId block, std::span<std::byte> out) override {
    const Block& from = blocks_.at({group, block});
    EXPECT_EQ(from.filled, ops::kBlockTokens);
    ASSERT_EQ(out.size(), BlockBytes(group));
    for (const FakePosition& position : from.positions) {
      out[0] = static_cast<std::byte>(position.token);
      std::memcpy(&out[1], &position.history, sizeof(position.history));
      out = out.subspan(1 + sizeof(position.history));
    }
  }
  void CopyIn(int group, ops::BlockId block, std::span<const std::byte> bytes) override {
    Block& into = blocks_.at({group, block});
    ASSERT_EQ(bytes.size(), BlockBytes(group));
    for (FakePosition& position : into.positions) {
      position.token = std::to_integer<TokenId>(bytes[0]);
      std::memcpy(&position.history, &bytes[1], sizeof(position.history));
      bytes = bytes.subspan(1 + sizeof(position.history));
    }
    into.filled = ops::kBlockTokens;
  }
  std::uint64_t used_bytes() const override { return used_bytes_; }
  std::uint64_t budget_bytes() const override { return budget_bytes_; }
  // Null when it is not allocated.
  Block* Find(int group, ops::BlockId block) {
    const auto found = blocks_.find({group, block});
    return found == blocks_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<ops::LayerGroup> groups_;
  std::uint64_t budget_bytes_;
  std::uint64_t used_bytes_ = 0;
  ops::BlockId next_ = 0;
  std::map<std::pair<int, ops::BlockId>, Block> blocks_;
};

// What tests see of the engine and how they hold it, from their own thread; outlives it.
struct FakeControl {
  struct Part {
    std::uint64_t sequence_id = 0;
    std::int64_t first_position = 0;
    std::size_t n_tokens = 0;
    bool wants_logits = false;
  };
  using Step = std::vector<Part>;

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Step> steps;
  std::vector<std::string> violations;
  bool gated = false;  // each step waits for a permit
  int permits = 0;
  int waiting = 0;  // 1 while a step waits for its permit
  std::function<std::optional<Error>(const std::vector<engine::StepSequence>&)> failure;
  std::function<void()> on_step;

  void Gate() {
    const std::lock_guard lock(mutex);
    gated = true;
  }
  // Lets `n` steps run and waits until the next one stands at the gate (or, with `last`, not).
  void Permit(int n) {
    std::unique_lock lock(mutex);
    permits += n;
    changed.notify_all();
  }
  void WaitAtGate() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return waiting == 1 && permits == 0; });
  }
  void Open() {
    const std::lock_guard lock(mutex);
    gated = false;
    changed.notify_all();
  }
  std::vector<Step> TakeSteps() {
    const std::lock_guard lock(mutex);
    return std::exchange(steps, {});
  }
};

// An engine whose next token is a function of the whole history, which it reads back out of the
// blocks through the block tables it is given: a wrong table, a block shared too early, written
// twice or evicted gives another text.
class FakeEngine final : public engine::Engine {
 public:
  FakeEngine(FakeControl& control, const std::vector<int>& windows, std::uint64_t budget_bytes)
      : control_(control), windows_(windows), store_(windows, budget_bytes) {}

  Result<engine::StepLogits> Forward(const std::vector<engine::StepSequence>& sequences) override {
    NoteStep(sequences);
    if (control_.failure) {
      if (const std::optional<Error> error = control_.failure(sequences)) {
        return Fail(*error);
      }
    }
    std::vector<float> values;
    for (const engine::StepSequence& sequence : sequences) {
      const std::uint64_t seen = Compute(sequence);
      if (sequence.wants_logits) {
        const std::vector<float> logits = FakeLogits(seen);
        values.insert(values.end(), logits.begin(), logits.end());
      }
    }
    return engine::StepLogits(std::move(values), kFakeVocab);
  }

  ops::BlockStore& blocks() override { return store_; }
  int vocab_size() const override { return kFakeVocab; }
  const std::string& fingerprint() const override { return fingerprint_; }
  std::uint64_t weight_bytes() const override { return 123; }

 private:
  void NoteStep(const std::vector<engine::StepSequence>& sequences) {
    if (control_.on_step) {
      control_.on_step();
    }
    std::unique_lock lock(control_.mutex);
    if (control_.gated) {
      control_.waiting = 1;
      control_.changed.notify_all();
      control_.changed.wait(lock, [this] { return control_.permits > 0 || !control_.gated; });
      control_.permits -= control_.permits > 0 ? 1 : 0;
      control_.waiting = 0;
    }
    FakeControl::Step step;
    for (const engine::StepSequence& sequence : sequences) {
      step.push_back({sequence.sequence_id, sequence.first_position, sequence.tokens.size(),
                      sequence.wants_logits});
    }
    control_.steps.push_back(std::move(step));
  }

  void Violation(const std::string& what) {
    const std::lock_guard lock(control_.mutex);
    control_.violations.push_back(what);
  }

  FakeStore::Block* BlockAt(const engine::StepSequence& sequence, std::size_t group,
                            std::int64_t position) {
    const auto& table = sequence.block_tables.at(group);
    const auto index = static_cast<std::size_t>(position / ops::kBlockTokens);
    FakeStore::Block* block =
        index < table.size() ? store_.Find(static_cast<int>(group), table[index]) : nullptr;
    if (block == nullptr) {
      Violation("no block where one is needed");
    }
    return block;
  }

  FakePosition Read(const engine::StepSequence& sequence, std::size_t group,
                    std::int64_t position) {
    const FakeStore::Block* block = BlockAt(sequence, group, position);
    const auto offset = static_cast<int>(position % ops::kBlockTokens);
    if (block == nullptr || offset >= block->filled) {
      Violation("read of a position that was not computed");
      return {};
    }
    return block->positions[static_cast<std::size_t>(offset)];
  }

  void Write(const engine::StepSequence& sequence, std::size_t group, std::int64_t position,
             FakePosition value) {
    FakeStore::Block* block = BlockAt(sequence, group, position);
    const auto offset = static_cast<int>(position % ops::kBlockTokens);
    if (block == nullptr || offset != block->filled) {
      Violation("write into a place that is not the block's next");
      return;
    }
    block->positions[static_cast<std::size_t>(offset)] = value;
    ++block->filled;
  }

  // Moves the state of a recurrent group on over the step's tokens, and writes it down at the end
  // of each block that the table has. Returns the last.
  std::uint64_t Advance(const engine::StepSequence& sequence, std::size_t group) {
    std::uint64_t history = 0;
    std::int64_t position = sequence.first_position;
    if (position > 0) {
      const FakeStore::Block* block = BlockAt(sequence, group, position - 1);
      if (block == nullptr || block->filled != (position - 1) % ops::kBlockTokens + 1) {
        Violation("the state before the step is not there");
        return 0;
      }
      history = block->positions[0].history;
    }
    const std::int64_t end = position + static_cast<std::int64_t>(sequence.tokens.size());
    for (const TokenId token : sequence.tokens) {
      history = FakeMix(history, static_cast<std::uint64_t>(token));
      ++position;
      const auto index = static_cast<std::size_t>((position - 1) / ops::kBlockTokens);
      const bool ends_block = position % ops::kBlockTokens == 0;
      if (position == end ||
          (ends_block && sequence.block_tables.at(group).at(index) != ops::kNoBlock)) {
        WriteState(sequence, group, position, history);
      }
    }
    return history;
  }

  void WriteState(const engine::StepSequence& sequence, std::size_t group, std::int64_t position,
                  std::uint64_t history) {
    FakeStore::Block* block = BlockAt(sequence, group, position - 1);
    const auto filled = static_cast<int>((position - 1) % ops::kBlockTokens + 1);
    if (block == nullptr || block->filled >= filled) {
      Violation("a state is written over a later one");
      return;
    }
    block->positions[0] = {.token = 0, .history = history};
    block->filled = filled;
  }

  // Returns the hash of what the last token sees.
  std::uint64_t Compute(const engine::StepSequence& sequence) {
    std::vector<std::uint64_t> states(windows_.size());
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      states[g] = windows_[g] == kRecurrent ? Advance(sequence, g) : 0;
    }
    std::int64_t position = sequence.first_position;
    for (const TokenId token : sequence.tokens) {
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        if (windows_[g] == kRecurrent) {
          continue;
        }
        const std::uint64_t before = position == 0 ? 0 : Read(sequence, g, position - 1).history;
        Write(sequence, g, position,
              {.token = token, .history = FakeMix(before, static_cast<std::uint64_t>(token))});
      }
      ++position;
    }
    if (!sequence.wants_logits) {
      return 0;
    }
    std::uint64_t seen = 0;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (windows_[g] == kRecurrent) {
        seen = FakeMix(seen, states[g]);
        continue;
      }
      const std::int64_t first =
          windows_[g] == 0 ? 0 : std::max<std::int64_t>(0, position - windows_[g]);
      for (std::int64_t i = first; i < position; ++i) {
        const FakePosition read = Read(sequence, g, i);
        seen = FakeMix(seen, read.history + static_cast<std::uint64_t>(read.token));
      }
    }
    return seen;
  }

  FakeControl& control_;
  std::vector<int> windows_;
  FakeStore store_;
  std::string fingerprint_ = "fake";
};

}  // namespace scheduler
