#include "model_files/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "model_files/gguf_config.h"
#include "model_files/gguf_families.h"
#include "model_files/gguf_vocabulary.h"
#include "model_files/test_support.h"

namespace model_files {
namespace {

using test::GgufWriter;
using test::Packed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<GgufFile> Parse(const std::string& bytes) {
  return ParseGguf(test::AsBytes(bytes), "m.gguf");
}

std::string MessageFor(const std::string& bytes) {
  const auto file = Parse(bytes);
  return file ? "" : file.error().message;
}

// One value of each type, arrays of strings, numbers and arrays, two tensors.
std::string Varied() {
  GgufWriter w;
  w.Raw("u8", 0, Packed(std::uint8_t{200})).Raw("i8", 1, Packed(std::int8_t{-3}));
  w.Raw("u16", 2, Packed(std::uint16_t{60000})).Raw("i16", 3, Packed(std::int16_t{-300}));
  w.Set("u32", 7U).Raw("i32", 5, Packed(std::int32_t{-7})).Set("f32", 1.5F).Set("yes", true);
  w.Set("text", "hello").Raw("u64", 10, Packed(std::uint64_t{1} << 40U));
  w.Raw("i64", 11, Packed(std::int64_t{-5})).Raw("f64", 12, Packed(2.25));
  w.Set("texts", std::vector<std::string>{"a", "", "ccc"});
  w.Set("ints", std::vector<std::int32_t>{4, 4, 4}).Set("floats", std::vector<float>{0.5F, -1.0F});
  const std::string inner =
      Packed(std::uint32_t{5}) + Packed(std::uint64_t{1}) + Packed(std::int32_t{9});
  w.Array("nested", 9, 2, inner + inner);
  w.Tensor("m", {32, 2}, 2, std::string(36, 'q')).Zeros("v", {3});
  return w.Finish();
}

// Uses all that a parsed file offers; what lies outside crashes or is told by a sanitizer.
void Touch(const GgufFile& file) {
  unsigned sum = 0;
  for (const TensorView& tensor : file.tensors) {
    for (const std::byte each : tensor.data) {
      sum += static_cast<unsigned>(each);
    }
  }
  volatile unsigned kept = sum;
  static_cast<void>(kept);
  for (const auto& [key, value] : file.metadata.values()) {
    static_cast<void>(file.metadata.Integer(key));
    static_cast<void>(file.metadata.Number(key));
    static_cast<void>(file.metadata.Texts(key));
    static_cast<void>(file.metadata.Floats(key));
    static_cast<void>(file.metadata.TextAt(key, 1));
  }
  for (const char* architecture : {"llama", "gemma3", "other"}) {
    static_cast<void>(TranslateConfig(file, architecture, FindGgufFamily(architecture), "m"));
  }
  if (const auto tokenizer = ReadGgufTokenizer(file.metadata, "m")) {
    static_cast<void>(ReadGgufEndTokens(file.metadata, *tokenizer));
  }
}

TEST(Gguf, ReadsEveryKindOfMetadata) {
  const std::string bytes = Varied();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  const GgufMetadata& m = file->metadata;
  EXPECT_EQ(m.Integer("u8"), 200);
  EXPECT_EQ(m.Integer("i8"), -3);
  EXPECT_EQ(m.Integer("u16"), 60000);
  EXPECT_EQ(m.Integer("i16"), -300);
  EXPECT_EQ(m.Integer("u32"), 7);
  EXPECT_EQ(m.Integer("i32"), -7);
  EXPECT_EQ(m.Integer("u64"), std::int64_t{1} << 40U);
  EXPECT_EQ(m.Integer("i64"), -5);
  EXPECT_EQ(m.Number("f32"), 1.5);
  EXPECT_EQ(m.Number("f64"), 2.25);
  EXPECT_EQ(m.Bool("yes"), true);
  EXPECT_EQ(m.Text("text"), "hello");
  EXPECT_THAT(m.Texts("texts"), ElementsAre("a", "", "ccc"));
  EXPECT_EQ(m.TextAt("texts", 2), "ccc");
  EXPECT_EQ(m.TextAt("texts", 3), std::nullopt);
  EXPECT_THAT(m.Floats("floats"), ElementsAre(0.5F, -1.0F));
  EXPECT_EQ(m.Integer("ints"), 4);
  EXPECT_EQ(m.Integer("floats"), std::nullopt);
  EXPECT_EQ(m.Count("nested"), 2U);
  EXPECT_EQ(m.Integer("absent"), std::nullopt);
}

TEST(Gguf, ShapesAreTurnedOutermostFirst) {
  const std::string bytes = Varied();
  const auto file = Parse(bytes);
  ASSERT_TRUE(file);
  ASSERT_EQ(file->tensors.size(), 2U);
  EXPECT_THAT(file->tensors[0].shape, ElementsAre(2, 32));
  EXPECT_EQ(file->tensors[0].format, TensorFormat::kQ4_0);
  EXPECT_EQ(file->tensors[0].data.size(), 36U);
  EXPECT_EQ(static_cast<char>(file->tensors[0].data[35]), 'q');
  EXPECT_THAT(file->tensors[1].shape, ElementsAre(3));
}

TEST(Gguf, EveryTruncationIsRefused) {
  GgufWriter w = test::SmallModel("llama");
  w.Tensor("last", {32}, 0, std::string(128, 'x'));  // ends on the alignment: no padding can be cut
  for (const std::string& whole : {Varied().substr(0, Varied().size() - 20), w.Finish()}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      const std::string cut = whole.substr(0, length);
      const auto file = Parse(cut);
      ASSERT_FALSE(file) << length;
      EXPECT_EQ(file.error().code, ErrorCode::kBadModel);
      EXPECT_THAT(file.error().message, HasSubstr("m.gguf"));
    }
  }
}

TEST(Gguf, FlippedBitsNeverCrash) {
  std::mt19937 random(2);
  for (const std::string& whole : {Varied(), test::SmallModel("gemma3").Finish()}) {
    const std::size_t head = std::min<std::size_t>(whole.size(), 2200);  // what is behind is data
    for (int round = 0; round < 5000; ++round) {
      std::string damaged = whole;
      for (unsigned flips = random() % 4 + 1; flips > 0; --flips) {
        damaged[random() % head] ^= static_cast<char>(1U << random() % 8);
      }
      const auto file = Parse(damaged);
      if (file) {
        Touch(*file);
      } else {
        EXPECT_FALSE(file.error().message.empty());
      }
    }
  }
}

TEST(Gguf, HugeCountsAndLengthsAreRefusedBeforeAnythingIsReserved) {
  const std::uint64_t huge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(MessageFor("GGUF" + Packed(3U) + Packed(huge) + Packed(std::uint64_t{0})),
              HasSubstr("tensors"));
  EXPECT_THAT(MessageFor("GGUF" + Packed(3U) + Packed(std::uint64_t{0}) + Packed(huge)),
              HasSubstr("metadata entries"));
  EXPECT_THAT(MessageFor(GgufWriter().Raw("k", 8, Packed(huge - 3)).Finish()),
              HasSubstr("a string"));
  EXPECT_THAT(MessageFor(GgufWriter().Array("k", 4, huge / 2, "").Finish()), HasSubstr("elements"));
  EXPECT_THAT(MessageFor(GgufWriter().Tensor("t", {huge / 2, huge / 2}, 0, "").Finish()),
              HasSubstr("tensor `t`"));
  EXPECT_THAT(MessageFor(GgufWriter().Tensor("t", {huge}, 0, "").Finish()),
              HasSubstr("tensor `t`"));
}

TEST(Gguf, DeeplyNestedArraysAreRefused) {
  std::string value;
  for (int i = 0; i < 100; ++i) {
    value += Packed(std::uint32_t{9}) + Packed(std::uint64_t{1});
  }
  value += Packed(std::uint32_t{4}) + Packed(std::uint64_t{0});
  EXPECT_THAT(MessageFor(GgufWriter().Raw("k", 9, value).Finish()), HasSubstr("nested"));
}

TEST(Gguf, WrongFilesAreRefusedWithTheirReason) {
  EXPECT_THAT(MessageFor("GGML" + std::string(40, '\0')),
              HasSubstr("does not begin with the letters GGUF"));
  EXPECT_THAT(MessageFor(GgufWriter().Finish(1)), HasSubstr("GGUF version 1"));
  EXPECT_THAT(MessageFor(GgufWriter().Finish(0x03000000)), HasSubstr("big-endian"));
  EXPECT_THAT(MessageFor(""), HasSubstr("is empty"));
  EXPECT_THAT(MessageFor(GgufWriter().Set("k", 1U).Set("k", 2U).Finish()), HasSubstr("`k` twice"));
  EXPECT_THAT(MessageFor(GgufWriter().Zeros("t", {1}).Zeros("t", {1}).Finish()),
              HasSubstr("`t` twice"));
  EXPECT_THAT(MessageFor(GgufWriter().Raw("k", 13, "").Finish()), HasSubstr("value type 13"));
  EXPECT_THAT(MessageFor(GgufWriter().Tensor("t", {1}, 99, "").Finish()),
              HasSubstr("ggml type 99"));
  EXPECT_THAT(MessageFor(GgufWriter().Tensor("t", {1, 1, 1, 1, 1}, 0, "1234").Finish()),
              HasSubstr("5 dimensions"));
  EXPECT_THAT(MessageFor(GgufWriter().Tensor("t", {33}, 2, std::string(99, 'x')).Finish()),
              HasSubstr("multiple of 32"));
  EXPECT_THAT(MessageFor(GgufWriter().Set("general.alignment", 24U).Finish()),
              HasSubstr("power of two"));
}

TEST(Gguf, TypesThatCannotBeServedAreStillMeasured) {
  const std::string whole = GgufWriter().Tensor("t", {256, 2}, 22, std::string(164, 'x')).Finish();
  const auto file = Parse(whole);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors[0].format, TensorFormat::kOther);
  EXPECT_EQ(file->tensors[0].format_name, "IQ2_S");
  EXPECT_THAT(MessageFor(whole.substr(0, whole.size() - 32)), HasSubstr("truncated"));
}

TEST(GgufParts, NamesAreTakenApartAndPutTogether) {
  const auto name = ParseSplitName("a-b-00002-of-00003.gguf", ".gguf");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->stem, "a-b");
  EXPECT_EQ(name->part, 2);
  EXPECT_EQ(name->parts, 3);
  EXPECT_EQ(MakeSplitName(*name, ".gguf"), "a-b-00002-of-00003.gguf");
  EXPECT_FALSE(ParseSplitName("a.gguf", ".gguf"));
  EXPECT_FALSE(ParseSplitName("a-00004-of-00003.gguf", ".gguf"));
  EXPECT_FALSE(ParseSplitName("a-0000x-of-00003.gguf", ".gguf"));
}

TEST(GgufParts, AnyPartOpensAllAndAMissingOneIsNamed) {
  const test::TempFolder folder;
  const auto part = [](std::uint32_t number) {
    GgufWriter w;
    w.Set("split.no", number).Set("split.count", 2U).Set("split.tensors.count", 2U);
    if (number == 0) {
      w.Set("general.architecture", "llama");
    }
    return w.Zeros(number == 0 ? "a" : "b", {4}).Finish();
  };
  const auto second = folder.Write("m-00002-of-00002.gguf", part(1));
  const auto missing = OpenGguf(second);
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("m-00001-of-00002.gguf"));
  const auto first = folder.Write("m-00001-of-00002.gguf", part(0));
  for (const auto& path : {first, second}) {
    const auto all = OpenGguf(path);
    ASSERT_TRUE(all) << all.error().message;
    EXPECT_EQ(all->tensors.size(), 2U);
    EXPECT_EQ(all->metadata.Text("general.architecture"), "llama");
  }
}

}  // namespace
}  // namespace model_files
