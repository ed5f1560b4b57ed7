#include "app/chat_session.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace app {
namespace {

TEST(EventSplitter, AnySplitGivesTheSameEvents) {
  const std::string stream =
      ": hi\n\ndata: {\"a\": 1}\r\n\r\nevent: x\ndata:two\n\ndata: [DONE]\n\n";
  const std::vector<std::string> expected = {"{\"a\": 1}", "two", "[DONE]"};
  for (std::size_t size = 1; size <= stream.size(); ++size) {
    EventSplitter splitter;
    std::vector<std::string> data;
    for (std::size_t at = 0; at < stream.size(); at += size) {
      splitter.Feed(stream.substr(at, size), [&](const std::string& d) { data.push_back(d); });
    }
    EXPECT_EQ(data, expected) << size;
  }
}

TEST(ServerUrl, HostPortAndBaseAreTakenApart) {
  const auto parse = [](const std::string& url) {
    const Result<ServerUrl> parsed = ParseServerUrl(url);
    return parsed ? parsed->host + "|" + parsed->port + "|" + parsed->base : "refused";
  };
  EXPECT_EQ(parse("http://localhost:8000"), "localhost|8000|");
  EXPECT_EQ(parse("http://localhost:8000/v1/"), "localhost|8000|");
  EXPECT_EQ(parse("http://h/a/v1"), "h|80|/a");
  EXPECT_EQ(parse("http://[::1]:81"), "::1|81|");
  EXPECT_EQ(parse("https://h"), "refused");
  EXPECT_EQ(parse("h:80"), "refused");
  EXPECT_EQ(parse("http://:80"), "refused");
}

TEST(ChatSession, SaysWhereNobodyListens) {
  const Result<ServerUrl> url = ParseServerUrl("http://127.0.0.1:1");
  ASSERT_TRUE(url);
  ChatSession session(*url, {});
  const Result<void> connected = session.Connect();
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("127.0.0.1:1"), std::string::npos);
}

}  // namespace
}  // namespace app
