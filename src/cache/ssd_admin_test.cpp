#include "cache/ssd_admin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/test_segments.h"

namespace cache {
namespace {

using namespace test_segments;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kAnyBudget = std::uint64_t{1} << 40U;

// Two models' files: three segments of "test", one of "other".
void Fill(MemoryFileSystem& files) {
  const Branch branch("", 1, 12);
  {
    const auto store = Open(files);
    store->Write(branch.Part(0, 4));
    store->Write(branch.Part(4, 8));
    store->Write(branch.Part(8, 12));
    store->WaitUntilIdle();
  }
  SsdOptions other = Options();
  other.fingerprint = std::string(64, 'b');
  other.model_name = "other";
  const auto store = Open(files, other);
  store->Write(branch.Part(0, 4));
  store->WaitUntilIdle();
}

// Lists on being made.
struct Listed : SsdAdmin {
  explicit Listed(MemoryFileSystem& files, const std::filesystem::path& root = kRoot)
      : SsdAdmin(files, root) {
    EXPECT_TRUE(List());
  }
};

TEST(SsdAdmin, NamesModelsAndWhatTheyHave) {
  MemoryFileSystem files;
  Fill(files);
  const Listed admin(files);
  const std::vector<SsdAdmin::Namespace> spaces = admin.Namespaces();
  ASSERT_EQ(spaces.size(), 2U);
  EXPECT_EQ(spaces[0].model, "other");
  EXPECT_EQ(spaces[0].files, 1U);
  EXPECT_EQ(spaces[1].model, "test");
  EXPECT_EQ(spaces[1].files, 3U);
  EXPECT_EQ(spaces[1].blocks, 12U);
  EXPECT_GT(spaces[1].bytes, 12 * kFull);
  EXPECT_EQ(admin.Namespaces("test").size(), 1U);
  EXPECT_EQ(admin.Namespaces("bbbbbb").size(), 1U) << "the start of a fingerprint";
  EXPECT_EQ(admin.Namespaces("b").size(), 0U) << "too short to mean one";
}

TEST(SsdAdmin, ADirectoryThatIsNotThereIsNotMade) {
  MemoryFileSystem files;
  SsdAdmin admin(files, "/nowhere");
  const IoResult<void> listed = admin.List();
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, IoError::Kind::kNotFound);
  EXPECT_TRUE(files.Files().empty());
}

TEST(SsdAdmin, GarbageIsWhatTheBudgetDoesNotHoldTailsFirst) {
  MemoryFileSystem files;
  Fill(files);
  Listed admin(files);
  EXPECT_TRUE(admin.Garbage(kAnyBudget).empty());
  const std::uint64_t used = admin.Namespaces()[0].bytes + admin.Namespaces()[1].bytes;
  const std::vector<SsdAdmin::FileName> garbage = admin.Garbage(used - 1);
  ASSERT_EQ(garbage.size(), 1U);
  EXPECT_NE(ParseKvFileName(garbage[0].name)->first_block, 4) << "in the middle of a branch";
  EXPECT_EQ(admin.Remove(garbage), 1U);
  EXPECT_EQ(admin.Remove(garbage), 1U) << "gone is gone";
  Listed again(files);
  EXPECT_TRUE(again.Garbage(used - 1).empty());
}

TEST(SsdAdmin, VerifyFindsEveryFlippedBitAndSetsTheFileAside) {
  MemoryFileSystem files;
  Fill(files);
  {
    Listed admin(files);
    double share = 0;
    const SsdAdmin::Checked checked =
        admin.Verify(admin.Namespaces(), /*set_aside=*/true, [&](double done) { share = done; });
    EXPECT_EQ(checked.files, 4U);
    EXPECT_TRUE(checked.damaged.empty());
    EXPECT_TRUE(checked.unreadable.empty());
    EXPECT_DOUBLE_EQ(share, 1);
  }
  const std::filesystem::path victim = OnlySegment(files);
  for (const std::size_t place :
       {std::size_t{700}, files.Content(victim).size() / 2, files.Content(victim).size() - 1}) {
    files.FlipBit(victim, place * 8);
    Listed admin(files);
    const SsdAdmin::Checked checked = admin.Verify(admin.Namespaces(), /*set_aside=*/false, {});
    EXPECT_EQ(checked.damaged.size(), 1U) << "byte " << place;
    files.FlipBit(victim, place * 8);
  }
  files.FlipBit(victim, files.Content(victim).size() * 4);
  Listed admin(files);
  EXPECT_EQ(admin.Verify(admin.Namespaces(), /*set_aside=*/true, {}).damaged.size(), 1U);
  Listed after(files);
  EXPECT_EQ(after.Namespaces().back().folder, kDamagedFolder);
  EXPECT_TRUE(after.Verify(after.Namespaces(), /*set_aside=*/true, {}).damaged.empty());
  EXPECT_EQ(after.Garbage(kAnyBudget).size(), 1U) << "damaged files are garbage";
}

TEST(SsdAdmin, ACopyServesAnotherMachineAndLeavesDamageBehind) {
  MemoryFileSystem files;
  Fill(files);
  const std::string damaged = OnlySegment(files).filename().string();
  files.Truncate(OnlySegment(files), 5000);
  const Listed from(files);
  ASSERT_TRUE(files.CreateDirectories("/copy"));
  Listed to(files, "/copy");
  const IoResult<SsdAdmin::Checked> copied = from.CopyTo(to, from.Namespaces("test"), {});
  ASSERT_TRUE(copied);
  EXPECT_EQ(copied->files, 3U);
  EXPECT_EQ(copied->damaged.size(), 1U);
  SsdOptions options = Options();
  options.directory = "/copy";
  EXPECT_EQ(Open(files, options)->stats().own_blocks, 8U);
  Listed there(files, "/copy");
  EXPECT_TRUE(there.Verify(there.Namespaces(), /*set_aside=*/false, {}).damaged.empty());
  EXPECT_EQ(there.Namespaces().front().model, "test");
  const IoResult<SsdAdmin::Checked> again = from.CopyTo(there, from.Namespaces("test"), {});
  ASSERT_TRUE(again);
  EXPECT_EQ(again->files, 1U) << "only what is not there is looked at";
}

TEST(SsdAdmin, AFullDiskEndsACopyWithoutATornFile) {
  MemoryFileSystem files;
  Fill(files);
  const Listed from(files);
  ASSERT_TRUE(files.CreateDirectories("/copy"));
  Listed to(files, "/copy");
  files.SetCapacity(files.UsedBytes() + 5 * kFull);
  const IoResult<SsdAdmin::Checked> copied = from.CopyTo(to, from.Namespaces("test"), {});
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().kind, IoError::Kind::kNoSpace);
  Listed there(files, "/copy");
  EXPECT_TRUE(std::ranges::none_of(files.Files(),
                                   [](const auto& path) { return path.extension() == ".tmp"; }));
  EXPECT_TRUE(there.Verify(there.Namespaces(), /*set_aside=*/false, {}).damaged.empty());
}

}  // namespace
}  // namespace cache
