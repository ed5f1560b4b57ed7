#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/step.h"
#include "model_files/model_source.h"
#include "ops/context.h"
#include "ops/cpu_features.h"
#include "ops/kv_store/block_store.h"

namespace engine {

// A loaded model: tokens in, logits out. The narrow door to MLX: its exceptions are caught here and
// nowhere else. An interface, since tests (and `serve --script`) put something simpler behind the
// scheduler. Load and all calls happen on one thread, the engine thread of the model.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  // Computes the step and stores K and V in the given blocks. An error leaves other sequences'
  // blocks intact; the blocks of this step's tokens are then unspecified.
  [[nodiscard]] virtual Result<StepLogits> Forward(const std::vector<StepSequence>& sequences) = 0;

  [[nodiscard]] virtual ops::BlockStore& blocks() = 0;
  [[nodiscard]] virtual int vocab_size() const = 0;
  // Identifies everything that makes cached state valid (design.md, "The bank"): weights, config,
  // KV dtype, kernel path and instruction set. Hex.
  [[nodiscard]] virtual const std::string& fingerprint() const = 0;
  [[nodiscard]] virtual std::uint64_t weight_bytes() const = 0;
};

// The K/V types that there are, in bits of a value.
inline constexpr std::array kKvBits = {32, 16, 8, 4};

struct EngineOptions {
  ops::KernelPath path = ops::KernelPath::kNative;
  ops::InstructionSet instruction_set = ops::InstructionSet::kPlain;
  int threads = 1;
  int kv_bits = 16;                   // one of kKvBits
  std::uint64_t kv_budget_bytes = 0;  // 0: kv_budget_percent of what the weights leave
  double kv_budget_percent = 40.0;
  std::function<void(double)> on_progress;  // loading, 0 .. 1; may be empty
};

// Loads weights and makes the KV store. Errors: kBadModel (one sentence, see ModelFamily::make),
// kOutOfMemory (weights do not fit, both numbers named), kUnsupported.
[[nodiscard]] Result<std::unique_ptr<Engine>> LoadEngine(const model_files::ModelSource& source,
                                                         const EngineOptions& options);

// An engine that plays a fixed text whatever it is asked: for protocol tests (`serve --script`).
// Each sequence's n-th logits make script[n] certain; after the script ends, `eos`. See
// scripted_engine.h for the file's form.
struct Script {
  std::vector<TokenId> tokens;
  TokenId eos = 0;
  int vocab_size = 0;
  double prefill_delay_s = 0;  // before the first logits of each sequence
  bool fails_at_end = false;   // Forward returns kInternal instead of eos
};
[[nodiscard]] std::unique_ptr<Engine> MakeScriptedEngine(Script script);

}  // namespace engine
