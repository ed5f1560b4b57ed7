#include "model_files/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model_files/test_support.h"

namespace model_files {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHeader =
    R"({"__metadata__":{"format":"mlx"},"a.weight":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("b":{"dtype":"I64","shape":[1],"data_offsets":[12,20]},"none":{"dtype":"F32","shape":[0,4],"data_offsets":[20,20]},)"
    R"("odd":{"dtype":"F6_E9","shape":[3],"data_offsets":[20,22]}})";

std::string Small() { return test::Safetensors(kHeader, std::string(22, 'd')); }

std::string MessageFor(const std::string& header, std::size_t data_bytes) {
  const std::string bytes = test::Safetensors(header, std::string(data_bytes, 'd'));
  const auto file = ParseSafetensors(test::AsBytes(bytes), "m.safetensors");
  return file ? "" : file.error().message;
}

// Reads what a tensor refers to, so that a sanitizer or a crash tells when it lies outside.
void Touch(const SafetensorsFile& file) {
  unsigned sum = 0;
  for (const TensorView& tensor : file.tensors) {
    for (const std::byte each : tensor.data) {
      sum += static_cast<unsigned>(each);
    }
  }
  volatile unsigned kept = sum;
  static_cast<void>(kept);
}

TEST(Safetensors, GivesEveryTensorWithItsFormatShapeAndBytes) {
  const std::string bytes = Small();
  const auto file = ParseSafetensors(test::AsBytes(bytes), "m");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->written_by, "mlx");
  ASSERT_EQ(file->tensors.size(), 4U);
  const TensorView& a = file->tensors[0];
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.format, TensorFormat::kBF16);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(a.data.data(), test::AsBytes(bytes).data() + 8 + std::string(kHeader).size());
  EXPECT_EQ(a.data.size(), 12U);
  EXPECT_EQ(file->tensors[1].format, TensorFormat::kI64);
  EXPECT_TRUE(file->tensors[2].data.empty());
}

TEST(Safetensors, AnUnknownDtypeKeepsItsName) {
  const std::string bytes = Small();
  const auto file = ParseSafetensors(test::AsBytes(bytes), "m");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->tensors[3].format, TensorFormat::kOther);
  EXPECT_EQ(file->tensors[3].format_name, "F6_E9");
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string whole = Small();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string cut = whole.substr(0, length);
    const auto file = ParseSafetensors(test::AsBytes(cut), "m.safetensors");
    ASSERT_FALSE(file) << length;
    EXPECT_EQ(file.error().code, ErrorCode::kBadModel);
    EXPECT_THAT(file.error().message, HasSubstr("m.safetensors"));
  }
}

TEST(Safetensors, ATruncatedTensorIsNamedWithItsPlace) {
  const std::string whole = Small();
  const std::string cut = whole.substr(0, whole.size() - 15);
  const auto file = ParseSafetensors(test::AsBytes(cut), "model-00001-of-00002.safetensors");
  ASSERT_FALSE(file);
  const std::size_t start = 8 + std::string(kHeader).size();
  EXPECT_EQ(
      file.error().message,
      "model-00001-of-00002.safetensors is truncated: the header places tensor a.weight at bytes " +
          std::to_string(start) + "-" + std::to_string(start + 12) + ", the file has " +
          std::to_string(cut.size()) + " bytes.");
}

TEST(Safetensors, FlippedBitsNeverCrash) {
  const std::string whole = Small();
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = whole;
    for (unsigned flips = random() % 4 + 1; flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << random() % 8);
    }
    const auto file = ParseSafetensors(test::AsBytes(damaged), "m");
    if (file) {
      Touch(*file);
    } else {
      EXPECT_FALSE(file.error().message.empty());
    }
  }
}

TEST(Safetensors, ASizeThatDoesNotFitTheShapeIsRefused) {
  EXPECT_THAT(MessageFor(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 8),
              HasSubstr("does not fit its shape"));
}

TEST(Safetensors, AProductThatOverflowsIsRefused) {
  EXPECT_THAT(
      MessageFor(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})",
                 8),
      HasSubstr("no valid shape"));
  EXPECT_THAT(
      MessageFor(
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]}})",
          8),
      HasSubstr("data_offsets"));
}

TEST(Safetensors, TensorsThatOverlapAreRefused) {
  EXPECT_THAT(
      MessageFor(
          R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"y":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
          8),
      HasSubstr("overlap"));
}

TEST(Safetensors, WrongHeadersAreRefused) {
  EXPECT_THAT(MessageFor("[]", 0), HasSubstr("JSON object"));
  EXPECT_THAT(MessageFor("{", 0), HasSubstr("JSON object"));
  EXPECT_THAT(MessageFor(R"({"x":3})", 0), HasSubstr("no object"));
  EXPECT_THAT(MessageFor(R"({"x":{"shape":[1],"data_offsets":[0,4]}})", 4), HasSubstr("dtype"));
  EXPECT_THAT(MessageFor(R"({"x":{"dtype":"U8","shape":[-1],"data_offsets":[0,4]}})", 4),
              HasSubstr("shape"));
  EXPECT_THAT(MessageFor(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4),
              HasSubstr("data_offsets"));
}

TEST(Safetensors, AGitLfsPointerIsToldAsSuch) {
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12\n";
  const auto file = ParseSafetensors(test::AsBytes(pointer), "m");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("Git LFS pointer"));
}

TEST(SafetensorsShards, TheIndexNamesTheShardsAndAMissingOneIsAnError) {
  const test::TempFolder folder;
  folder.Write(
      "model.safetensors.index.json",
      R"({"weight_map":{"x":"model-00001-of-00002.safetensors","y":"model-00002-of-00002.safetensors"}})");
  folder.Write(
      "model-00001-of-00002.safetensors",
      test::Safetensors(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234"));
  const auto missing = OpenSafetensors(folder.path());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("model-00002-of-00002.safetensors"));
  folder.Write("model-00002-of-00002.safetensors",
               test::Safetensors(R"({"y":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "56"));
  const auto both = OpenSafetensors(folder.path());
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->tensors.size(), 2U);
  EXPECT_NE(both->tensors.at("y").file, nullptr);
}

TEST(SafetensorsShards, WithoutAnIndexTheNumbersTellThatOneIsMissing) {
  const test::TempFolder folder;
  folder.Write(
      "model-00001-of-00002.safetensors",
      test::Safetensors(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234"));
  const auto missing = OpenSafetensors(folder.path());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("model-00002-of-00002.safetensors"));
}

TEST(SafetensorsShards, AnIndexCannotNameAFileOutsideItsFolder) {
  const test::TempFolder folder;
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"x":"../secret.safetensors"}})");
  const auto escaped = OpenSafetensors(folder.path());
  ASSERT_FALSE(escaped);
  EXPECT_THAT(escaped.error().message, HasSubstr("no plain file name"));
}

TEST(SafetensorsShards, ASingleFileWinsOverTheStaleIndexOfOtherShards) {
  const test::TempFolder folder;
  folder.Write("model.safetensors.index.json",
               R"({"weight_map":{"x":"model-00001-of-00009.safetensors"}})");
  folder.Write(
      "model.safetensors",
      test::Safetensors(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "1234"));
  EXPECT_TRUE(OpenSafetensors(folder.path()));
}

TEST(SafetensorsShards, PyTorchWeightsAreToldAsSuch) {
  const test::TempFolder folder;
  folder.Write("pytorch_model.bin", "x");
  const auto none = OpenSafetensors(folder.path());
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("convert them to safetensors"));
}

}  // namespace
}  // namespace model_files
