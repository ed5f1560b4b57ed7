#include "api/error_body.h"

#include <gtest/gtest.h>

namespace api {
namespace {

TEST(ErrorBody, OpenAisEnvelopeHasAllFourFields) {
  const Error error{.code = ErrorCode::kInvalidRequest, .message = "No.", .param = "top_p"};
  EXPECT_EQ(
      DumpJson(ErrorBody("/v1/chat/completions", error)),
      R"({"error":{"message":"No.","type":"invalid_request_error","param":"top_p","code":null}})");
  EXPECT_EQ(
      ErrorBody("/x",
                {.code = ErrorCode::kModelNotFound, .message = "", .param = ""})["error"]["code"],
      "model_not_found");
  EXPECT_EQ(ErrorBody("/x", {.code = ErrorCode::kContextLengthExceeded,
                             .message = "",
                             .param = ""})["error"]["code"],
            "context_length_exceeded");
}

TEST(ErrorBody, AnthropicsPathsHaveAnthropicsShape) {
  const Error error{.code = ErrorCode::kNotFound, .message = "No.", .param = ""};
  const std::string expected =
      R"({"type":"error","error":{"type":"not_found_error","message":"No."}})";
  EXPECT_EQ(DumpJson(ErrorBody("/v1/messages", error)), expected);
  EXPECT_EQ(DumpJson(ErrorBody("/v1/messages/count_tokens", error)), expected);
  EXPECT_TRUE(ErrorBody("/v1/messagesx", error)["error"].contains("code"));
}

}  // namespace
}  // namespace api
