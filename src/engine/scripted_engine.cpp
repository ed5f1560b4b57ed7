#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "engine/engine.h"

namespace engine {
namespace {

// Room for blocks that hold nothing: a script needs no K and V.
class EmptyBlocks final : public ops::BlockStore {
 public:
  const std::vector<ops::LayerGroup>& groups() const override { return groups_; }
  std::uint64_t BlockBytes(int /*group*/) const override { return kBlockBytes; }
  std::optional<ops::BlockId> Allocate(int /*group*/) override {
    if (used_bytes() + kBlockBytes > kBudgetBytes) {
      return std::nullopt;
    }
    ++used_;
    if (free_.empty()) {
      return next_++;
    }
    const ops::BlockId block = free_.back();
    free_.pop_back();
    return block;
  }
  void Free(int /*group*/, ops::BlockId block) override {
    --used_;
    free_.push_back(block);
  }
  void CopyOut(int /*group*/, ops::BlockId /*block*/, std::span<std::byte> out) override {
    std::ranges::fill(out, std::byte{0});
  }
  void CopyIn(int /*group*/, ops::BlockId /*block*/,
              std::span<const std::byte> /*bytes*/) override {}
  std::uint64_t used_bytes() const override { return used_ * kBlockBytes; }
  std::uint64_t budget_bytes() const override { return kBudgetBytes; }

 private:
  static constexpr std::uint64_t kBlockBytes = 64;
  static constexpr std::uint64_t kBudgetBytes = kBlockBytes << 20;  // 64 million tokens

  std::vector<ops::LayerGroup> groups_ = {{.layers = {0}, .window = 0}};
  std::uint64_t used_ = 0;
  ops::BlockId next_ = 0;
  std::vector<ops::BlockId> free_;
};

class ScriptedEngine final : public Engine {
 public:
  explicit ScriptedEngine(Script script) : script_(std::move(script)) {}

  Result<StepLogits> Forward(const std::vector<StepSequence>& sequences) override {
    std::vector<float> values;
    for (const StepSequence& sequence : sequences) {
      if (!sequence.wants_logits) {
        continue;
      }
      const std::int64_t position =
          sequence.first_position + static_cast<std::int64_t>(sequence.tokens.size());
      const std::size_t n = LogitsBefore(sequence.sequence_id, position);
      if (n >= script_.tokens.size() && script_.fails_at_end) {
        return Fail(ErrorCode::kInternal, "The script ends with a failure of the engine.");
      }
      AppendCertain(values, n < script_.tokens.size() ? script_.tokens[n] : script_.eos);
    }
    return StepLogits(std::move(values), script_.vocab_size);
  }

  ops::BlockStore& blocks() override { return blocks_; }
  int vocab_size() const override { return script_.vocab_size; }
  const std::string& fingerprint() const override { return fingerprint_; }
  std::uint64_t weight_bytes() const override { return 0; }

 private:
  // How many logits the sequence got before those at `position`. By position, not by call: a
  // sequence that was put back and resumed goes on where it was.
  std::size_t LogitsBefore(std::uint64_t sequence_id, std::int64_t position) {
    const auto [entry, is_new] = first_positions_.try_emplace(sequence_id, position);
    if (is_new) {
      std::this_thread::sleep_for(std::chrono::duration<double>(script_.prefill_delay_s));
      // Nobody tells when a sequence has ended; ids grow, so the lowest is long gone.
      if (first_positions_.size() > kSequencesRemembered) {
        first_positions_.erase(first_positions_.begin());
      }
    }
    return static_cast<std::size_t>(std::max<std::int64_t>(0, position - entry->second));
  }

  void AppendCertain(std::vector<float>& values, TokenId token) const {
    constexpr float kCertain =
        100.0F;  // exp(-100) of a vocabulary is nothing, at temperatures up to 2 or so
    const std::size_t start = values.size();
    values.resize(start + static_cast<std::size_t>(script_.vocab_size), 0.0F);
    if (token >= 0 && token < script_.vocab_size) {
      values[start + static_cast<std::size_t>(token)] = kCertain;
    }
  }

  static constexpr std::size_t kSequencesRemembered = 65536;

  Script script_;
  EmptyBlocks blocks_;
  std::map<std::uint64_t, std::int64_t> first_positions_;
  std::string fingerprint_ = "script";
};

}  // namespace

std::unique_ptr<Engine> MakeScriptedEngine(Script script) {
  return std::make_unique<ScriptedEngine>(std::move(script));
}

}  // namespace engine
