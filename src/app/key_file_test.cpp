#include "app/key_file.h"

#include <gtest/gtest.h>

#include <fstream>

namespace app {
namespace {

std::string Write(const std::string& content) {
  const std::string path = testing::TempDir() + "/keys";
  std::ofstream(path) << content;
  return path;
}

TEST(KeyFile, HasAKeyALine) {
  const auto keys = ReadKeyFile(Write("# of the team\none\n\n  two \r\n#three\nfour#4"));
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(*keys, (std::vector<std::string>{"one", "two", "four#4"}));
}

TEST(KeyFile, WithoutAKeyIsAnErrorNotAnOpenServer) {
  EXPECT_FALSE(ReadKeyFile(Write("# none\n \n")));
  EXPECT_FALSE(ReadKeyFile(Write("")));
  EXPECT_FALSE(ReadKeyFile("/nowhere/keys"));
}

}  // namespace
}  // namespace app
