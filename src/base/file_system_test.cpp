#include "base/file_system.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "base/memory_file_system.h"

namespace {

namespace fs = std::filesystem;

std::span<const std::byte> Bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Both kinds must behave alike: what the tests of the disk tier find on one holds for the other.
class FileSystems : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      files_ = MakeOsFileSystem();
      root_ = fs::temp_directory_path() / ("emberbank-files-" + std::to_string(::getpid()));
      fs::remove_all(root_);
    } else {
      files_ = std::make_unique<MemoryFileSystem>();
      root_ = "/root";
    }
    ASSERT_TRUE(files_->CreateDirectories(root_ / "a/b"));
  }
  void TearDown() override {
    if (GetParam()) {
      fs::remove_all(root_);
    }
  }
  void Write(const fs::path& path, std::string_view text) {
    auto file = files_->Create(path);
    ASSERT_TRUE(file) << file.error().message;
    ASSERT_TRUE((*file)->Append(Bytes(text)));
    ASSERT_TRUE((*file)->Sync());
  }
  std::string Read(const fs::path& path) {
    const IoResult<std::string> text = ReadWholeFile(*files_, path, 1000);
    EXPECT_TRUE(text) << text.error().message;
    return text.value_or("");
  }

  std::unique_ptr<FileSystem> files_;
  fs::path root_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, FileSystems, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Os" : "Memory"; });

TEST_P(FileSystems, AFileReadsAsItWasWritten) {
  Write(root_ / "f", "one two");
  auto file = files_->OpenForRead(root_ / "f");
  ASSERT_TRUE(file);
  EXPECT_EQ((*file)->size(), 7U);
  std::string part(3, ' ');
  ASSERT_TRUE((*file)->ReadAt(4, std::as_writable_bytes(std::span(part))));
  EXPECT_EQ(part, "two");
  const auto beyond = (*file)->ReadAt(5, std::as_writable_bytes(std::span(part)));
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().kind, IoError::Kind::kTruncated);
}

TEST_P(FileSystems, ARenameReplacesAndAListingTellsSizes) {
  Write(root_ / "f", "old");
  Write(root_ / "g", "newer");
  ASSERT_TRUE(files_->Rename(root_ / "g", root_ / "f"));
  EXPECT_EQ(Read(root_ / "f"), "newer");
  const auto list = files_->List(root_);
  ASSERT_TRUE(list);
  std::set<std::string> seen;
  for (const DirectoryEntry& entry : *list) {
    seen.insert(entry.is_directory ? entry.name + "/"
                                   : fmt::format("{}:{}", entry.name, entry.size));
  }
  EXPECT_EQ(seen, (std::set<std::string>{"a/", "f:5"}));
}

TEST_P(FileSystems, WhatIsNotThereIsAnErrorOfItsOwnKind) {
  const auto expect_not_found = [](const auto& result) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind, IoError::Kind::kNotFound) << result.error().message;
  };
  expect_not_found(files_->OpenForRead(root_ / "f"));
  expect_not_found(files_->List(root_ / "c"));
  expect_not_found(files_->Remove(root_ / "f"));
  expect_not_found(files_->Rename(root_ / "f", root_ / "g"));
  expect_not_found(files_->Touch(root_ / "f"));
  expect_not_found(files_->Create(root_ / "c/f"));
  Write(root_ / "f", "");
  const auto again = files_->Create(root_ / "f");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().kind, IoError::Kind::kExists);
}

TEST_P(FileSystems, OnlyAFileThatNobodyWritesCountsAsAbandoned) {
  auto file = files_->Create(root_ / "f");
  ASSERT_TRUE(file);
  EXPECT_EQ(files_->RemoveIfAbandoned(root_ / "f").value(), false);
  file->reset();
  EXPECT_EQ(files_->RemoveIfAbandoned(root_ / "f").value(), true);
  EXPECT_EQ(files_->RemoveIfAbandoned(root_ / "f").value(), false);
}

TEST_P(FileSystems, AnUpdateSeesWhatIsThere) {
  const auto add = [](std::string_view old) { return std::string(old) + "x"; };
  ASSERT_TRUE(files_->Update(root_ / "f", add));
  ASSERT_TRUE(files_->Update(root_ / "f", add));
  EXPECT_EQ(Read(root_ / "f"), "xx");
}

TEST_P(FileSystems, ATouchMakesAFileTheLatest) {
  Write(root_ / "f", "");
  Write(root_ / "g", "");
  ::usleep(20'000);
  ASSERT_TRUE(files_->Touch(root_ / "f"));
  const auto list = files_->List(root_);
  ASSERT_TRUE(list);
  const auto time = [&](std::string_view name) {
    return std::ranges::find(*list, name, &DirectoryEntry::name)->modified;
  };
  EXPECT_GT(time("f"), time("g"));
}

TEST(OsFileSystem, FoldersAndFilesAreForTheUserAlone) {
  const auto files = MakeOsFileSystem();
  const fs::path root =
      fs::temp_directory_path() / ("emberbank-mode-" + std::to_string(::getpid()));
  ASSERT_TRUE(files->CreateDirectories(root / "a"));
  ASSERT_TRUE(files->Create(root / "a/f"));
  struct stat info{};
  ASSERT_EQ(::stat((root / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
  ASSERT_EQ(::stat((root / "a/f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  EXPECT_GT(files->FreeBytes(root).value(), 0U);
  fs::remove_all(root);
}

TEST(MemoryFileSystem, PowerLossKeepsWhatWasSyncedWithItsName) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    MemoryFileSystem files;
    ASSERT_TRUE(files.CreateDirectories("/d"));
    {
      auto file = files.Create("/d/t");
      ASSERT_TRUE((*file)->Append(Bytes("abc")));
      ASSERT_TRUE((*file)->Sync());
    }
    ASSERT_TRUE(files.Rename("/d/t", "/d/f"));
    ASSERT_TRUE(files.SyncDirectory("/d"));
    {
      ASSERT_TRUE((*files.Create("/d/g"))->Append(Bytes("defghi")));
    }
    files.LosePower(seed);
    ASSERT_EQ(ReadWholeFile(files, "/d/f", 10).value_or("gone"), "abc");
  }
}

TEST(MemoryFileSystem, PowerLossMayLoseOrTearWhatWasNotSynced) {
  std::set<std::string> seen;
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    MemoryFileSystem files;
    ASSERT_TRUE(files.CreateDirectories("/d"));
    {
      ASSERT_TRUE((*files.Create("/d/g"))->Append(Bytes("de")));
    }
    files.LosePower(seed);
    seen.insert(ReadWholeFile(files, "/d/g", 10).value_or("gone"));
  }
  EXPECT_GE(seen.size(), 4U) << "gone, empty, torn, zeros, whole";
}

TEST(MemoryFileSystem, AfterAKillNothingWorksUntilARestart) {
  MemoryFileSystem files;
  ASSERT_TRUE(files.CreateDirectories("/d"));
  files.KillAfter(1);
  ASSERT_TRUE(files.Create("/d/f"));
  EXPECT_FALSE(files.Create("/d/g"));
  EXPECT_FALSE(files.OpenForRead("/d/f"));
  files.Restart();
  EXPECT_TRUE(files.OpenForRead("/d/f"));
  EXPECT_FALSE(files.OpenForRead("/d/g"));
}

}  // namespace
