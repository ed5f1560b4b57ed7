#include "cache/remote_options.h"

#include <gtest/gtest.h>

#include <string>

namespace cache {
namespace {

TEST(RedisUrl, SaysServerUserAndDatabase) {
  const auto address = ParseRedisUrl("redis://agent:p%40ss%2fword@cache.local:7000/3");
  ASSERT_TRUE(address);
  EXPECT_EQ(address->host, "cache.local");
  EXPECT_EQ(address->port, 7000);
  EXPECT_EQ(address->user, "agent");
  EXPECT_EQ(address->password, "p@ss/word");
  EXPECT_EQ(address->database, 3);
  EXPECT_EQ(address->Label(), "cache.local:7000/3");
}

TEST(RedisUrl, HasDefaults) {
  for (const char* url : {"redis://10.0.0.7", "redis://10.0.0.7/", "redis://10.0.0.7:6379/0"}) {
    const auto address = ParseRedisUrl(url);
    ASSERT_TRUE(address) << url;
    EXPECT_EQ(address->Label(), "10.0.0.7:6379/0");
    EXPECT_EQ(address->password, "");
  }
  EXPECT_EQ(ParseRedisUrl("redis://:secret@h")->password, "secret");
  EXPECT_EQ(ParseRedisUrl("redis://:secret@h")->user, "");
  EXPECT_EQ(ParseRedisUrl("redis://[::1]:1234/1")->Label(), "::1:1234/1");
}

TEST(RedisUrl, OtherTextsAreRefusedWithoutSayingThePassword) {
  for (const char* url :
       {"", "rediss://h", "http://h", "redis://", "redis://:6379", "redis://h:", "redis://h:0",
        "redis://h:65536", "redis://h:6379x", "redis://h/x", "redis://h/-1", "redis://[::1",
        "redis://[::1]6379", "redis://user:secret%4@h", "redis://user:secret%zz@h", "redis://user@h"}) {
    const auto address = ParseRedisUrl(url);
    ASSERT_FALSE(address) << url;
    EXPECT_EQ(address.error().code, ErrorCode::kInvalidRequest);
    EXPECT_EQ(address.error().message.find("secret"), std::string::npos);
  }
}

}  // namespace
}  // namespace cache
