// Properties that every family must have, on every instruction set and in float and quantised
// formats: a token's logits are the same bits however its prefix was computed. On the reference
// path, whose matrix products may sum in another order for another number of rows, they agree
// within kReferenceTolerance.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "model_support/test_model.h"
#include "models/model.h"

namespace {

using model_support::Case;
using model_support::Feed;
using model_support::Path;
using model_support::Sequence;
using Rows = std::vector<std::vector<float>>;

// Longer than three blocks and many of tiny Gemma's windows of 32.
constexpr int kPromptTokens = 230;
constexpr int kDecoded = 5;
constexpr double kReferenceTolerance = 1e-3;  // of logits with a standard deviation of 3

// One float, one MLX and one GGUF file of each family; quantised K and V come in through
// kv_bits 16.
bool IsChosen(const Case& model) {
  return model.name == model.family + "-hf" || model.name == model.family + "-mlx-mixed" ||
         model.name == model.family + "-gguf-q8_0" || model.name == "qwen3-wide-gguf-q4_k" ||
         model.name == "llama-gguf-q4_0";
}

std::vector<Case> ChosenCases() {
  std::vector<Case> chosen;
  std::ranges::copy_if(model_support::ReadCases(), std::back_inserter(chosen), IsChosen);
  return chosen;
}

std::vector<TokenId> Prompt(engine::Engine& engine) {
  return model_support::RandomTokens(kPromptTokens, engine.vocab_size(), 7);
}

std::vector<TokenId> Continuation(engine::Engine& engine) {
  return model_support::RandomTokens(kDecoded, engine.vocab_size(), 8);
}

// Logits at the prompt's end and after each decoded token.
Rows Decode(engine::Engine& engine, Sequence& sequence, std::vector<float> first) {
  Rows rows = {std::move(first)};
  for (const TokenId token : Continuation(engine)) {
    rows.push_back(Feed(engine, sequence, {token}, 1));
  }
  return rows;
}

Rows Alone(engine::Engine& engine, int chunk) {
  Sequence sequence(engine);
  std::vector<float> first = Feed(engine, sequence, Prompt(engine), chunk);
  return Decode(engine, sequence, std::move(first));
}

// The logits of the last decoded token, with all tokens before it in the prefill.
Rows InOneGo(engine::Engine& engine) {
  std::vector<TokenId> tokens = Prompt(engine);
  std::ranges::copy(Continuation(engine), std::back_inserter(tokens));
  Sequence sequence(engine);
  return {Feed(engine, sequence, tokens, kPromptTokens + kDecoded)};
}

Rows OnASharedPrefix(engine::Engine& engine, int shared) {
  const std::vector<TokenId> prompt = Prompt(engine);
  Sequence first(engine);
  // Stops at the shared length, so that sliding windows still have their blocks there.
  (void)Feed(engine, first, {prompt.begin(), prompt.begin() + shared}, kPromptTokens);
  Sequence second(engine, first, shared);
  std::vector<float> logits =
      Feed(engine, second, {prompt.begin() + shared, prompt.end()}, kPromptTokens);
  return Decode(engine, second, std::move(logits));
}

// The sequence's tokens go through steps that seven strangers share, prefilling and decoding at
// their own pace.
Rows AmongStrangers(engine::Engine& engine) {
  constexpr int kStrangers = 7;
  constexpr int kChunk = 48;
  std::vector<std::unique_ptr<Sequence>> strangers;
  for (int i = 0; i < kStrangers; ++i) {
    strangers.push_back(std::make_unique<Sequence>(engine));
  }
  Sequence sequence(engine);
  std::vector<TokenId> tokens = Prompt(engine);
  std::ranges::copy(Continuation(engine), std::back_inserter(tokens));
  Rows rows;
  unsigned step = 0;
  while (sequence.length() < static_cast<int>(tokens.size())) {
    const int at = sequence.length();
    const int count = at < kPromptTokens ? std::min(kChunk, kPromptTokens - at) : 1;
    const bool wants = at + count >= kPromptTokens;
    std::vector<engine::StepSequence> plan;
    int row = 0;
    for (int i = 0; i < kStrangers; ++i) {
      if (i == kStrangers / 2) {
        plan.push_back(sequence.Plan({tokens.begin() + at, tokens.begin() + at + count}, wants));
        row = i;
      }
      const int stranger_count =
          strangers[static_cast<std::size_t>(i)]->length() == 0 ? 3 + 11 * i : 1 + i % 2;
      plan.push_back(strangers[static_cast<std::size_t>(i)]->Plan(
          model_support::RandomTokens(stranger_count, engine.vocab_size(),
                                      100 * step + static_cast<unsigned>(i)),
          true));
    }
    Result<engine::StepLogits> logits = engine.Forward(plan);
    if (!logits) {
      ADD_FAILURE() << logits.error().message;
      return rows;
    }
    if (wants) {
      const std::span<float> own = logits->Row(row);
      rows.emplace_back(own.begin(), own.end());
    }
    ++step;
  }
  return rows;
}

void ExpectSame(const Rows& expected, const Rows& actual, bool bits, const std::string& what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (std::size_t row = 0; row < expected.size(); ++row) {
    ASSERT_EQ(expected[row].size(), actual[row].size()) << what;
    double worst = 0;
    for (std::size_t i = 0; i < expected[row].size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(expected[row][i]) - actual[row][i]));
    }
    EXPECT_LE(worst, bits ? 0.0 : kReferenceTolerance) << what << ", row " << row;
    if (bits) {
      EXPECT_EQ(expected[row], actual[row]) << what << ", row " << row;
    }
  }
}

class ModelConformance : public ::testing::TestWithParam<Case> {};

TEST_P(ModelConformance, ATokensLogitsDoNotDependOnHowItsPrefixWasComputed) {
  std::vector<Path> paths = model_support::AllPaths(/*kv_bits=*/16);
  for (const int kv_bits : {8, 4}) {  // bit-equality of the sets is held by ops/attention's tests
    Path best = model_support::AllPaths(kv_bits).back();
    best.name += ", kv_bits " + std::to_string(kv_bits);
    paths.push_back(std::move(best));
  }
  for (Path path : paths) {
    SCOPED_TRACE(path.name);
    const bool bits = path.options.path == ops::KernelPath::kNative;
    std::unique_ptr<engine::Engine> engine = model_support::MakeEngine(GetParam(), path.options);
    ASSERT_NE(engine, nullptr);
    const Rows cold = Alone(*engine, kPromptTokens);
    // A step costs the reference path much; whole blocks and a rest show as much there.
    for (const int chunk : bits ? std::vector{1, 7, 64, 100} : std::vector{64}) {
      ExpectSame(cold, Alone(*engine, chunk), bits, "chunks of " + std::to_string(chunk));
    }
    ExpectSame({cold.back()}, InOneGo(*engine), bits, "decoded tokens as part of the prefill");
    ExpectSame(cold, OnASharedPrefix(*engine, 192), bits, "on a shared prefix");
    ExpectSame(cold, AmongStrangers(*engine), bits, "in a batch of eight");
    EXPECT_EQ(engine->blocks().used_bytes(), 0U);

    if (!bits) {
      continue;
    }
    path.options.threads = 1;
    engine = model_support::MakeEngine(GetParam(), path.options);
    ASSERT_NE(engine, nullptr);
    ExpectSame(cold, Alone(*engine, 100), bits, "one thread");
  }
}

TEST(ModelConformance, ATokenOutsideTheVocabularyIsRefusedAndHarmsNobody) {
  const std::vector<Case> cases = ChosenCases();
  const Path path = model_support::AllPaths(/*kv_bits=*/16).back();
  const std::unique_ptr<engine::Engine> engine =
      model_support::MakeEngine(cases.at(0), path.options);
  ASSERT_NE(engine, nullptr);
  Sequence sequence(*engine);
  const std::vector<TokenId> prompt = Prompt(*engine);
  const Rows expected = Alone(*engine, kPromptTokens);
  for (const TokenId token : {-1, engine->vocab_size(), std::numeric_limits<TokenId>::max()}) {
    Sequence wrong(*engine);
    const auto refused = engine->Forward({wrong.Plan({1, token}, true)});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidRequest);
    EXPECT_NE(refused.error().message.find(std::to_string(engine->vocab_size())),
              std::string::npos);
  }
  EXPECT_EQ(Feed(*engine, sequence, prompt, kPromptTokens), expected[0]);
}

TEST(ModelConformance, EveryFamilyHasCases) {
  const std::vector<Case> cases = ChosenCases();
  for (const models::ModelFamily* family : models::All()) {
    const bool covered = std::ranges::any_of(cases, [&](const Case& each) {
      return std::ranges::find(family->model_types, each.family) != family->model_types.end();
    });
    EXPECT_TRUE(covered) << "no case in tests/model_golden/cases.json for "
                         << family->model_types[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelConformance, ::testing::ValuesIn(ChosenCases()),
                         [](const ::testing::TestParamInfo<Case>& info) {
                           std::string name = info.param.name;
                           std::ranges::replace_if(
                               name, [](char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace
