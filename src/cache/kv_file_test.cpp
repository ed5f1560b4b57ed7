#include "cache/kv_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/json.h"
#include "base/memory_file_system.h"

namespace cache {
namespace {

const std::filesystem::path kFolder = "/kv";
const KvFileSpec kSpec{.fingerprint = std::string(64, 'f'), .group_bytes = {96, 40}};

std::vector<std::byte> Content(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> content(bytes);
  for (std::byte& byte : content) {
    seed = seed * 1'664'525U + 1'013'904'223U;
    byte = static_cast<std::byte>(seed >> 24U);
  }
  return content;
}

// Three blocks, the window group in the last one only.
Segment MakeSegment() {
  Segment segment;
  segment.first_block = 20;
  segment.parent.fill(9);
  for (unsigned i = 0; i < 3; ++i) {
    BlockContent block;
    block.key.fill(static_cast<std::uint8_t>(100 + i));
    block.tokens.fill(static_cast<TokenId>(i));
    block.groups = {Content(96, i), i == 2 ? Content(40, 10) : std::vector<std::byte>()};
    segment.blocks.push_back(std::move(block));
  }
  return segment;
}

class KvFiles : public ::testing::Test {
 protected:
  KvFiles() : path_(kFolder / FormatKvFileName(MakeSegment().Name())) {
    EXPECT_TRUE(files_.CreateDirectories(kFolder));
    auto file = files_.Create(path_);
    EXPECT_TRUE(WriteKvFile(**file, kSpec, MakeSegment()));
  }

  KvFileResult<KvFile> Open(const KvFileSpec& spec = kSpec) {
    return KvFile::Open(files_, path_, spec, MakeSegment().Name());
  }

  // Whether anything was refused; fails the test when something is read that was not written.
  bool IsRefused() {
    KvFileResult<KvFile> file = Open();
    if (!file) {
      return true;
    }
    const Segment expected = MakeSegment();
    bool refused = file->parent() != expected.parent;  // for the caller to compare
    for (std::size_t i = 0; i < 3; ++i) {
      refused = refused || file->keys()[i] != expected.blocks[i].key;
      EXPECT_EQ(file->tokens(i), expected.blocks[i].tokens);
      for (std::size_t g = 0; g < 2; ++g) {
        std::vector<std::byte> bytes(expected.blocks[i].groups[g].size());
        if (bytes.empty()) {
          continue;
        }
        if (file->Read(i, g, bytes)) {
          EXPECT_EQ(bytes, expected.blocks[i].groups[g]);
        } else {
          refused = true;
        }
      }
    }
    return refused;
  }

  MemoryFileSystem files_;
  std::filesystem::path path_;
};

TEST_F(KvFiles, ReadAsTheyWereWritten) {
  EXPECT_FALSE(IsRefused());
  EXPECT_EQ(KvFileBytes(kSpec, MakeSegment().Name()), files_.Content(path_).size());
}

TEST_F(KvFiles, AreSafetensorsWithAlignedData) {
  const std::string bytes = files_.Content(path_);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ((8 + length) % 4096, 0U);
  const Result<Json> header = ParseJson(std::string_view(bytes).substr(8, length));
  ASSERT_TRUE(header);
  EXPECT_EQ(header->at("__metadata__").at("format"), "emberbank-kv");
  EXPECT_EQ(header->at("__metadata__").at("first_block"), "20");
  EXPECT_EQ(header->at("tokens").at("shape"), Json({3, 64}));
  EXPECT_FALSE(header->contains("b0.g1"));
  const Json& last = header->at("b2.g1");
  EXPECT_EQ(last.at("dtype"), "U8");
  EXPECT_EQ(last.at("shape"), Json({40}));
  EXPECT_EQ(8 + length + last.at("data_offsets").at(1).get<std::uint64_t>(), bytes.size());
}

TEST_F(KvFiles, AFlippedBitIsAlwaysFound) {
  const std::size_t size = files_.Content(path_).size();
  for (std::size_t byte = 0; byte < size; ++byte) {
    const std::uint64_t bit = byte * 8 + byte % 8;
    files_.FlipBit(path_, bit);
    ASSERT_TRUE(IsRefused()) << "bit " << bit;
    files_.FlipBit(path_, bit);
  }
  EXPECT_FALSE(IsRefused());
}

TEST_F(KvFiles, ATruncatedFileIsDamaged) {
  const std::size_t size = files_.Content(path_).size();
  for (std::size_t kept = size; kept-- > 0;) {
    files_.Truncate(path_, kept);
    const KvFileResult<KvFile> file = Open();
    ASSERT_FALSE(file) << kept;
    ASSERT_EQ(file.error().kind, KvFileError::Kind::kDamaged) << kept;
  }
}

TEST_F(KvFiles, OfAnotherNamespaceOrLayoutAreNotUsed) {
  KvFileSpec other = kSpec;
  other.fingerprint = std::string(64, '0');
  const KvFileResult<KvFile> file = Open(other);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, KvFileError::Kind::kForeign);
  other = kSpec;
  other.group_bytes[0] = 97;
  EXPECT_FALSE(Open(other));
}

TEST_F(KvFiles, OfAnotherVersionAreLeftAlone) {
  std::string bytes = files_.Content(path_);
  const std::string old = R"("version":"1")";
  const std::size_t place = bytes.find(old);
  ASSERT_NE(place, std::string::npos);
  for (int bit = 0; bit < 2; ++bit) {  // '1' is 0x31, '2' is 0x32
    files_.FlipBit(path_, (place + old.size() - 2) * 8 + static_cast<std::uint64_t>(bit));
  }
  const KvFileResult<KvFile> file = Open();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, KvFileError::Kind::kForeign);
}

TEST_F(KvFiles, ThatAreGoneAreNoDamage) {
  ASSERT_TRUE(files_.Remove(path_));
  const KvFileResult<KvFile> file = Open();
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().kind, KvFileError::Kind::kGone);
}

TEST(KvFileNames, ReadAsTheyWereWritten) {
  const KvFileName name = MakeSegment().Name();
  EXPECT_EQ(name.blocks[0].groups, 1U);
  EXPECT_EQ(name.blocks[2].groups, 3U);
  EXPECT_EQ(ParseKvFileName(FormatKvFileName(name)), name);
}

TEST(KvFileNames, OfTheMostBlocksFitIntoAFolder) {
  KvFileName name{.first_block = 0x7fffffff, .parent = {.bits = 1}, .blocks = {}};
  name.blocks.resize(kMaxSegmentBlocks, {.tag = {.bits = (std::uint64_t{1} << 40U) - 1},
                                         .groups = (1U << kMaxKvGroups) - 1});
  const std::string text = FormatKvFileName(name);
  EXPECT_LE(text.size() + std::string(".4194304-4294967295.tmp").size(), 255U);
  EXPECT_EQ(ParseKvFileName(text), name);
}

TEST(KvFileNames, OtherNamesAreRefused) {
  const std::string good = FormatKvFileName(MakeSegment().Name());
  EXPECT_TRUE(ParseKvFileName(good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(ParseKvFileName(good.substr(0, i)));
    std::string changed = good;
    changed[i] = '!';
    EXPECT_FALSE(ParseKvFileName(changed)) << changed;
  }
  EXPECT_FALSE(ParseKvFileName("0" + good)) << "one name a segment";
  EXPECT_FALSE(ParseKvFileName("about.json"));
}

}  // namespace
}  // namespace cache
