#include "model_support/test_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>

#include "model_files/model_source.h"
#include "ops/cpu_features.h"
#include "test_paths.h"

namespace model_support {
namespace {

constexpr std::uint64_t kKvBytes = std::uint64_t{64}
                                   << 20U;  // ten sequences of some hundred tokens

void SplitInto(std::vector<std::vector<TokenId>>& pieces, const std::vector<TokenId>& tokens,
               int chunk) {
  for (std::size_t at = 0; at < tokens.size(); at += static_cast<std::size_t>(chunk)) {
    const std::size_t end = std::min(tokens.size(), at + static_cast<std::size_t>(chunk));
    pieces.emplace_back(tokens.begin() + static_cast<std::ptrdiff_t>(at),
                        tokens.begin() + static_cast<std::ptrdiff_t>(end));
  }
}

}  // namespace

std::filesystem::path Case::ModelPath() const {
  const std::filesystem::path directory = std::filesystem::path(EMBERBANK_TEST_MODELS) / name;
  return format.starts_with("gguf") ? directory / "model.gguf" : directory;
}

bool Case::IsQuantised() const {
  return format.starts_with("mlx") || format.starts_with("gguf-q") || family == "gpt_oss";
}

Json ReadJsonFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  const Result<Json> json = ParseJson(text.str());
  EXPECT_TRUE(json.has_value()) << path << ": " << (json ? "" : json.error().message);
  return json ? *json : Json();
}

std::vector<Case> ReadCases() {
  const Json json =
      ReadJsonFile(std::filesystem::path(EMBERBANK_SOURCE_DIR) / "tests/model_golden/cases.json");
  std::vector<Case> cases;
  for (const Json& entry : json["cases"]) {
    cases.push_back({.name = entry["name"],
                     .family = entry["family"],
                     .format = entry["format"],
                     .golden = entry["golden"]});
  }
  return cases;
}

std::vector<Path> AllPaths(int kv_bits) {
  const auto options = [&](ops::KernelPath path, ops::InstructionSet set) {
    engine::EngineOptions made;
    made.path = path;
    made.instruction_set = set;
    made.threads = 2;
    made.kv_bits = kv_bits;
    made.kv_budget_bytes = kKvBytes;
    return made;
  };
  std::vector<ops::InstructionSet> sets = {ops::InstructionSet::kPlain};
  if (ops::DetectCpu().avx2) {
    sets.push_back(ops::InstructionSet::kAvx2);
  }
  if (ops::DetectCpu().avx512_vnni) {
    sets.push_back(ops::InstructionSet::kAvx512Vnni);
  }
  std::vector<Path> paths = {
      {.name = "reference",
       .options = options(ops::KernelPath::kReference, ops::InstructionSet::kPlain)}};
  for (const ops::InstructionSet set : sets) {
    paths.push_back(
        {.name = std::string(ops::Name(set)), .options = options(ops::KernelPath::kNative, set)});
  }
  return paths;
}

std::unique_ptr<engine::Engine> MakeEngine(const Case& model,
                                           const engine::EngineOptions& options) {
  const Result<model_files::ModelSource> source = model_files::OpenModel(model.ModelPath());
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return nullptr;
  }
  Result<std::unique_ptr<engine::Engine>> engine = engine::LoadEngine(*source, options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    return nullptr;
  }
  return std::move(*engine);
}

Sequence::Sequence(engine::Engine& engine)
    : engine_(engine), tables_(engine.blocks().groups().size()) {}

Sequence::Sequence(engine::Engine& engine, const Sequence& other, int length) : Sequence(engine) {
  length_ = length;
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    const auto& blocks = other.tables_[group].blocks;
    tables_[group].blocks.assign(blocks.begin(), blocks.begin() + length / ops::kBlockTokens);
    tables_[group].owned.assign(tables_[group].blocks.size(), false);
  }
}

Sequence::~Sequence() {
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    for (std::size_t i = 0; i < tables_[group].blocks.size(); ++i) {
      if (tables_[group].owned[i] && tables_[group].blocks[i] != ops::kNoBlock) {
        engine_.blocks().Free(static_cast<int>(group), tables_[group].blocks[i]);
      }
    }
  }
}

void Sequence::DropPassedBlocks() {
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    const int window = engine_.blocks().groups()[group].window;
    Table& table = tables_[group];
    // The next token sees positions from length_ - window + 1 on.
    for (std::size_t i = 0; window > 0 && i < table.blocks.size(); ++i) {
      const int end = (static_cast<int>(i) + 1) * ops::kBlockTokens;
      if (end <= length_ - window + 1 && table.owned[i] && table.blocks[i] != ops::kNoBlock) {
        engine_.blocks().Free(static_cast<int>(group), table.blocks[i]);
        table.blocks[i] = ops::kNoBlock;
      }
    }
  }
}

engine::StepSequence Sequence::Plan(const std::vector<TokenId>& tokens, bool wants_logits) {
  static std::uint64_t next_id = 1;
  DropPassedBlocks();
  engine::StepSequence step{.sequence_id = next_id++,
                            .tokens = tokens,
                            .first_position = length_,
                            .block_tables = {},
                            .wants_logits = wants_logits};
  length_ += static_cast<int>(tokens.size());
  const auto n_blocks =
      static_cast<std::size_t>((length_ + ops::kBlockTokens - 1) / ops::kBlockTokens);
  for (std::size_t group = 0; group < tables_.size(); ++group) {
    Table& table = tables_[group];
    while (table.blocks.size() < n_blocks) {
      const std::optional<ops::BlockId> block = engine_.blocks().Allocate(static_cast<int>(group));
      EXPECT_TRUE(block.has_value()) << "the KV budget of the test is too small";
      table.blocks.push_back(block.value_or(ops::kNoBlock));
      table.owned.push_back(true);
    }
    step.block_tables.push_back(table.blocks);
  }
  return step;
}

std::vector<float> Feed(engine::Engine& engine, Sequence& sequence,
                        const std::vector<TokenId>& tokens, int chunk) {
  std::vector<std::vector<TokenId>> pieces;
  SplitInto(pieces, tokens, chunk);
  std::vector<float> last;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool wants_logits = i + 1 == pieces.size();
    Result<engine::StepLogits> logits = engine.Forward({sequence.Plan(pieces[i], wants_logits)});
    if (!logits) {
      ADD_FAILURE() << logits.error().message;
      return {};
    }
    if (wants_logits) {
      const std::span<float> row = logits->Row(0);
      last.assign(row.begin(), row.end());
    }
  }
  return last;
}

std::vector<TokenId> RandomTokens(int count, int vocab_size, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens;
  for (int i = 0; i < count; ++i) {
    tokens.push_back(static_cast<TokenId>(random() % static_cast<unsigned>(vocab_size)));
  }
  return tokens;
}

}  // namespace model_support
