#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/token_constraint.h"
#include "engine/engine.h"

// What the tests of whole models share: the cases of tests/model_golden/cases.json, engines, and
// sequences on them.
namespace model_support {

struct Case {
  std::string name;
  std::string family;  // model_type
  std::string format;  // of tools/model_factory
  std::string golden;  // name of the golden file
  // The .gguf file or the directory, made by the test fixture `make_models`.
  [[nodiscard]] std::filesystem::path ModelPath() const;
  // gpt-oss's experts are MXFP4 in every format.
  [[nodiscard]] bool IsQuantised() const;
};

[[nodiscard]] std::vector<Case> ReadCases();
[[nodiscard]] Json ReadJsonFile(const std::filesystem::path& path);

// Engine settings with a name for test output: "reference", "avx2", ...
struct Path {
  std::string name;
  engine::EngineOptions options;
};

// The reference path and the native one with each instruction set of this machine; K and V of
// `kv_bits`.
[[nodiscard]] std::vector<Path> AllPaths(int kv_bits);

// An engine for the case, or a test failure and nullptr.
[[nodiscard]] std::unique_ptr<engine::Engine> MakeEngine(const Case& model,
                                                         const engine::EngineOptions& options);

// One sequence with blocks of its own (or, for a prefix, of another). Gives its blocks back at the
// end.
class Sequence {
 public:
  explicit Sequence(engine::Engine& engine);
  // Starts with the first `length` tokens of `other`, whose full blocks it shares without copying.
  // REQUIRES: length is a multiple of 64 and `other` outlives this.
  Sequence(engine::Engine& engine, const Sequence& other, int length);
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  // The step that adds `tokens`; blocks are allocated, and blocks that every window has passed are
  // freed.
  [[nodiscard]] engine::StepSequence Plan(const std::vector<TokenId>& tokens, bool wants_logits);
  [[nodiscard]] int length() const { return length_; }

 private:
  struct Table {
    std::vector<ops::BlockId> blocks;
    std::vector<bool> owned;
  };
  void DropPassedBlocks();

  engine::Engine& engine_;
  std::vector<Table> tables_;  // per layer group
  int length_ = 0;
};

// Adds `tokens` to the sequence alone, in steps of at most `chunk`, and returns the logits of the
// last one.
[[nodiscard]] std::vector<float> Feed(engine::Engine& engine, Sequence& sequence,
                                      const std::vector<TokenId>& tokens, int chunk);

// `count` token ids below `vocab_size`, the same for the same seed.
[[nodiscard]] std::vector<TokenId> RandomTokens(int count, int vocab_size, unsigned seed);

}  // namespace model_support
