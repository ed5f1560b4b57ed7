#include "http/sse.h"

#include <gtest/gtest.h>

namespace http {
namespace {

TEST(Sse, AnEventIsItsDataAndAnEmptyLine) {
  EXPECT_EQ(FormatEvent("", "{}"), "data: {}\n\n");
  EXPECT_EQ(FormatEvent("ping", "{}"), "event: ping\ndata: {}\n\n");
  EXPECT_EQ(FormatEvent("", ""), "data: \n\n");
}

TEST(Sse, NoDataCanEndItsEvent) {
  EXPECT_EQ(FormatEvent("", "a\n\nb\r\nc\rd"), "data: a\ndata: \ndata: b\ndata: c\ndata: d\n\n");
}

TEST(Sse, AChunkTellsItsLengthInHexadecimal) {
  EXPECT_EQ(FormatChunk("0123456789abcdef!"), "11\r\n0123456789abcdef!\r\n");
}

}  // namespace
}  // namespace http
