#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/result.h"
#include "engine/engine.h"

namespace app {

// Loads the model with so much memory for K and V; 0: as it likes. Called once a life.
using LoadEngine = std::function<Result<std::unique_ptr<engine::Engine>>(std::uint64_t kv_bytes)>;

struct SelftestPlan {
  std::uint32_t seed = 1;
  int lives = 4;          // the model is loaded anew in each; the directory stays
  int requests = 24;      // of each life
  int reply_tokens = 40;  // so that replies fill blocks of their own now and then
  int head_tokens = 320;  // that talks share; turns are random shorter texts
  std::filesystem::path directory;
  std::function<void(const std::string&)> on_progress = {};  // one line; may be empty
};

struct SelftestReport {
  int compared = 0;  // requests whose tokens and log-probabilities were compared
  int cancelled = 0;
  std::uint64_t memory_tokens = 0;  // prompt tokens found in memory
  std::uint64_t disk_tokens = 0;
  std::uint64_t computed_tokens = 0;
  std::uint64_t evicted_blocks = 0;
  std::vector<std::string> differences;  // a line each; empty: every answer was the same to the bit
};

// Is reuse exact? Random talks that grow, branch, run together, are cancelled, evicted from little
// memory, dropped from memory and met again after restarts; each answer must have the tokens and
// the log-probabilities, to the bit, of the same prompt computed alone without a bank. Errors: the
// model could not be loaded or run.
[[nodiscard]] Result<SelftestReport> RunSelftest(const LoadEngine& load, FileSystem& files,
                                                 const SelftestPlan& plan);

}  // namespace app
