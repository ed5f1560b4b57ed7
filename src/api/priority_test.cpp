#include "api/priority.h"

#include <gtest/gtest.h>

namespace api {
namespace {

using scheduler::Priority;

Priority Read(const char* body, const ApiRequest& request = {}) {
  const Json json = ParseJson(body).value();
  FieldReader fields(json);
  const Priority priority = ReadPriority(fields, request);
  EXPECT_FALSE(fields.error()) << body;
  return priority;
}

TEST(Priority, TheFieldSaysIt) {
  for (const char* body : {R"({"priority": "background"})", R"({"priority": 1})",
                           R"({"priority": "7", "messages": [], "tools": [{}]})"}) {
    EXPECT_EQ(Read(body), Priority::kBackground) << body;
  }
  for (const char* body : {R"({"priority": "interactive", "messages": [], "max_tokens": 9})",
                           R"({"priority": 0, "messages": [], "max_tokens": 9})",
                           R"({"priority": -1})", R"({"priority": null})", "{}"}) {
    EXPECT_EQ(Read(body), Priority::kInteractive) << body;
  }
}

TEST(Priority, TheHeaderSaysItWhereTheFieldDoesNot) {
  ApiRequest request;
  request.headers["x-priority"] = "background";
  EXPECT_EQ(Read("{}", request), Priority::kBackground);
  EXPECT_EQ(Read(R"({"priority": 0})", request), Priority::kInteractive);
}

TEST(Priority, AShortChatWithoutToolsIsASideRequest) {
  for (const char* body :
       {R"({"messages": [], "max_tokens": 512})",
        R"({"messages": [], "tools": [], "max_tokens": 9})",
        R"({"input": "a", "max_output_tokens": 20})",
        R"({"messages": [], "max_completion_tokens": 20, "max_tokens": 9999})"}) {
    EXPECT_EQ(Read(body), Priority::kBackground) << body;
  }
  for (const char* body : {R"({"messages": [], "max_tokens": 513})", R"({"messages": []})",
                           R"({"messages": [], "tools": [{}], "max_tokens": 9})",
                           R"({"prompt": "a", "max_tokens": 9})"}) {
    EXPECT_EQ(Read(body), Priority::kInteractive) << body;
  }
}

TEST(Priority, OtherValuesAreRefused) {
  for (const char* body : {R"({"priority": "high"})", R"({"priority": 1.5})", R"({"priority": {}})",
                           R"({"priority": true})", R"({"priority": ""})"}) {
    const Json json = ParseJson(body).value();
    FieldReader fields(json);
    (void)ReadPriority(fields, {});
    EXPECT_TRUE(fields.error()) << body;
  }
}

}  // namespace
}  // namespace api
