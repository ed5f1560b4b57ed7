#include "model_files/library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "model_files/test_support.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<std::string_view> kKnown = {"llama", "qwen3"};

// A home of its own, with no place of the machine's in sight.
class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"EMBERBANK_MODELS", "HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
                             "OLLAMA_MODELS", "HOME"}) {
      const char* value = std::getenv(name);
      if (value != nullptr) {
        saved_[name] = value;
      }
      ::unsetenv(name);
    }
    ::setenv("HOME", home_.path().c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("EMBERBANK_MODELS");
    for (const auto& [name, value] : saved_) {
      ::setenv(name.c_str(), value.c_str(), 1);
    }
  }

  // Found models by name.
  std::map<std::string, FoundModel> Find() {
    std::map<std::string, FoundModel> by_name;
    for (FoundModel& model : FindModels(kKnown)) {
      by_name.emplace(model.name, model);
    }
    return by_name;
  }
  void WriteDirectory(const fs::path& folder, const std::string& type) {
    home_.Write(folder / "config.json", R"({"model_type":")" + type + R"("})");
    home_.Write(folder / "tokenizer.json", "{}");
    home_.Write(
        folder / "model.safetensors",
        test::Safetensors(R"({"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", "1234"));
  }

  test::TempFolder home_;
  std::map<std::string, std::string> saved_;
};

const std::string kHex(64, 'a');
const fs::path kOllama = ".ollama/models";

std::string Manifest(const std::string& digest) {
  return R"({"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:00"},)"
         R"({"mediaType":"application/vnd.ollama.image.model","digest":")" +
         digest + R"("}]})";
}

TEST_F(Library, AnEmptyHomeHoldsNoModels) { EXPECT_TRUE(FindModels(kKnown).empty()); }

TEST_F(Library, LmStudioModelsAreNamedByPublisherModelAndFile) {
  home_.Write(".lmstudio/models/pub/Small-GGUF/Small-Q4.gguf", test::SmallModel("llama").Finish());
  home_.Write(".lmstudio/models/pub/Small-GGUF/mmproj-Small.gguf",
              test::GgufWriter().Set("general.architecture", "clip").Finish());
  WriteDirectory(".lmstudio/models/pub/mlx-model", "qwen3");
  const auto found = Find();
  ASSERT_EQ(found.size(), 3U);
  const FoundModel& gguf = found.at("pub/Small-GGUF/Small-Q4");
  EXPECT_TRUE(gguf.servable) << gguf.why_not;
  EXPECT_EQ(gguf.place, "LM Studio");
  EXPECT_EQ(gguf.format, "GGUF");
  EXPECT_EQ(gguf.architecture, "llama");
  EXPECT_EQ(gguf.quantization, "F32");
  EXPECT_GT(gguf.size_bytes, 0U);
  EXPECT_THAT(found.at("pub/Small-GGUF/mmproj-Small").why_not, HasSubstr("projector"));
  EXPECT_TRUE(found.at("pub/mlx-model").servable);
  EXPECT_EQ(found.at("pub/mlx-model").quantization, "BF16");
}

TEST_F(Library, OwnFoldersAreSearchedFirstAndMayBeSeveral) {
  WriteDirectory("one/m", "llama");
  WriteDirectory("two", "llama");
  const std::string folders =
      (home_.path() / "one").string() + "::" + (home_.path() / "two").string();
  ::setenv("EMBERBANK_MODELS", folders.c_str(), 1);
  const auto found = Find();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.at("m").place, "EMBERBANK_MODELS");
  EXPECT_EQ(found.at("two").path, home_.path() / "two");  // the folder is itself a model
}

TEST_F(Library, TheHubCacheGivesTheSnapshotOfMain) {
  const fs::path repository = ".cache/huggingface/hub/models--org--small";
  WriteDirectory(repository / "snapshots/old", "llama");
  WriteDirectory(repository / "snapshots/new", "qwen3");
  home_.Write(repository / "refs/main", "old\n");
  home_.Write(".cache/huggingface/hub/models--org--broken/refs/main", "gone");
  home_.Write(".cache/huggingface/hub/datasets--org--d/snapshots/x/config.json", "{}");
  const auto found = Find();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.at("org/small").path.filename(), "old");
  EXPECT_TRUE(found.at("org/small").servable);
  EXPECT_THAT(found.at("org/broken").why_not, HasSubstr("incomplete"));
}

TEST_F(Library, OllamaManifestsLeadToTheirBlobs) {
  const fs::path manifests = kOllama / "manifests/registry.ollama.ai";
  home_.Write(kOllama / ("blobs/sha256-" + kHex), test::SmallModel("qwen3").Finish());
  home_.Write(manifests / "library/small/0.6b", Manifest("sha256:" + kHex));
  home_.Write(manifests / "someone/gone/latest", Manifest("sha256:" + std::string(64, 'b')));
  home_.Write(manifests / "library/evil/latest", Manifest("sha256:../../../../etc/passwd"));
  home_.Write(manifests / "library/damaged/latest", "{");
  const auto found = Find();
  ASSERT_EQ(found.size(), 4U);
  EXPECT_TRUE(found.at("small:0.6b").servable) << found.at("small:0.6b").why_not;
  EXPECT_EQ(found.at("small:0.6b").place, "Ollama");
  EXPECT_THAT(found.at("someone/gone:latest").why_not, HasSubstr("missing"));
  EXPECT_THAT(found.at("evil:latest").why_not, HasSubstr("names no model file"));
  EXPECT_THAT(found.at("damaged:latest").why_not, HasSubstr("damaged"));
}

TEST_F(Library, WhatCannotBeServedIsListedWithItsReason) {
  const fs::path place = ".lmstudio/models/p";
  WriteDirectory(place / "other", "bert");
  WriteDirectory(place / "embedding", "qwen3");
  home_.Write(place / "embedding/modules.json", "[]");
  home_.Write(place / "no-weights/config.json", R"({"model_type":"llama"})");
  home_.Write(place / "cut/m.gguf", test::SmallModel("llama").Finish().substr(0, 700));
  WriteDirectory(place / "nvfp4", "llama");
  home_.Write(place / "nvfp4/config.json",
              R"({"model_type":"llama","quantization":{"mode":"nvfp4","bits":4}})");
  home_.Write(
      place / "iq/iq.gguf",
      test::SmallModel("llama").Tensor("output.weight", {256}, 22, std::string(82, 'x')).Finish());
  const auto found = Find();
  EXPECT_THAT(found.at("p/other").why_not, HasSubstr("`bert`"));
  EXPECT_THAT(found.at("p/embedding").why_not, HasSubstr("embeddings"));
  EXPECT_THAT(found.at("p/no-weights").why_not, HasSubstr("no .safetensors"));
  EXPECT_THAT(found.at("p/cut/m").why_not, HasSubstr("truncated"));
  EXPECT_GT(found.at("p/cut/m").size_bytes, 0U);
  EXPECT_THAT(found.at("p/nvfp4").why_not, HasSubstr("affine"));
  EXPECT_THAT(found.at("p/iq/iq").why_not, HasSubstr("IQ2_S"));
  for (const auto& [name, model] : found) {
    EXPECT_FALSE(model.servable) << name;
  }
}

TEST_F(Library, LinksThatLeadBackOrNowhereDoNoHarm) {
  const fs::path place = home_.path() / ".lmstudio/models/p";
  WriteDirectory(".lmstudio/models/p/m", "llama");
  fs::create_directory_symlink(place, place / "loop");
  fs::create_symlink(place / "nowhere", place / "dangling.gguf");
  const auto found = Find();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found.contains("p/m"));
  EXPECT_THAT(found.at("p/dangling").why_not, HasSubstr("not there"));
}

TEST_F(Library, NamesResolveInFullByLastComponentAndByPath) {
  WriteDirectory(".lmstudio/models/pub/small", "llama");
  home_.Write(kOllama / ("blobs/sha256-" + kHex), test::SmallModel("qwen3").Finish());
  home_.Write(kOllama / "manifests/registry.ollama.ai/library/tiny/latest",
              Manifest("sha256:" + kHex));
  const fs::path small = home_.path() / ".lmstudio/models/pub/small";
  EXPECT_EQ(ResolveModel("pub/small", kKnown).value(), small);
  EXPECT_EQ(ResolveModel("small", kKnown).value(), small);
  EXPECT_EQ(ResolveModel(small.string(), kKnown).value(), small);
  EXPECT_EQ(ResolveModel("tiny", kKnown).value().filename(), "sha256-" + kHex);
}

TEST_F(Library, AnAmbiguousNameListsTheFullOnesUnlessJustOneCanBeServed) {
  WriteDirectory(".lmstudio/models/a/small", "llama");
  WriteDirectory(".lmstudio/models/b/small", "llama");
  const auto two = ResolveModel("small", kKnown);
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().message, HasSubstr("a/small, b/small"));
  WriteDirectory(".lmstudio/models/a/small", "bert");
  EXPECT_EQ(ResolveModel("small", kKnown).value(), home_.path() / ".lmstudio/models/b/small");
}

TEST_F(Library, AnUnknownNameTellsThePlacesAndTheNearestNames) {
  WriteDirectory(".lmstudio/models/pub/Qwen3-0.6B", "qwen3");
  const auto missing = ResolveModel("qwen3-0.6", kKnown);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kModelNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr("pub/Qwen3-0.6B"));
  EXPECT_THAT(missing.error().message, HasSubstr(".lmstudio/models"));
  EXPECT_FALSE(ResolveModel("", kKnown));
}

}  // namespace
}  // namespace model_files
