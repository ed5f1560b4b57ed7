#include "app/print.h"

#include <gtest/gtest.h>

namespace app {
namespace {

TEST(PrintTo, AnOutputThatCannotBeWrittenIsNoFailure) {
  std::FILE* closed = std::fopen("/dev/null", "r");  // writing to it fails
  ASSERT_NE(closed, nullptr);
  (void)std::setvbuf(closed, nullptr, _IONBF, 0);
  EXPECT_NO_THROW(PrintTo(closed, "{} %\n", 25));
  EXPECT_NE(std::ferror(closed), 0);
  (void)std::fclose(closed);
}

}  // namespace
}  // namespace app
