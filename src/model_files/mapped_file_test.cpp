#include "model_files/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "model_files/tensor_formats.h"
#include "model_files/test_support.h"

namespace model_files {
namespace {

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const test::TempFolder folder;
  const auto file = MappedFile::Open(folder.Write("a", "hello"));
  ASSERT_TRUE(file);
  EXPECT_EQ(AsText((*file)->bytes()), "hello");
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const test::TempFolder folder;
  const auto file = MappedFile::Open(folder.Write("a", ""));
  ASSERT_TRUE(file);
  EXPECT_TRUE((*file)->bytes().empty());
}

TEST(MappedFile, WhatCannotBeReadIsAnErrorThatNamesIt) {
  const test::TempFolder folder;
  const auto missing = MappedFile::Open(folder.path() / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_NE(missing.error().message.find("nothing"), std::string::npos);
  EXPECT_FALSE(MappedFile::Open(folder.path()));
}

TEST(MappedFile, DroppedPagesStillReadTheSame) {
  const test::TempFolder folder;
  const std::string content(3 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + 17, 'x');
  const auto file = MappedFile::Open(folder.Write("a", content));
  ASSERT_TRUE(file);
  const auto bytes = (*file)->bytes();
  (*file)->DropPages(bytes);
  (*file)->DropPages(bytes.subspan(5, 100));
  (*file)->DropPages({});
  EXPECT_EQ(AsText(bytes), content);
}

}  // namespace
}  // namespace model_files
