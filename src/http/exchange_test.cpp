#include "http/exchange.h"

#include <gtest/gtest.h>

#include <string>

namespace http {
namespace {

// A client that may leave at any time.
class LeavingClient final : public ByteSink {
 public:
  bool Write(std::string_view bytes) override {
    received += left ? "" : bytes;
    return !left;
  }
  [[nodiscard]] bool gone() const override { return left; }

  std::string received;
  bool left = false;
};

TEST(Exchange, AClientThatLeavesAfterTheLastEventWasNotCutOff) {
  LeavingClient client;
  Exchange exchange(client, {});
  exchange.BeginEvents();
  exchange.SendEvent("[DONE]");
  client.left = true;
  exchange.EndEvents();
  exchange.Finish();
  EXPECT_FALSE(exchange.is_cut_off());
}

TEST(Exchange, AClientThatLeavesBeforeTheLastEventWasCutOff) {
  LeavingClient client;
  Exchange exchange(client, {});
  exchange.BeginEvents();
  client.left = true;
  exchange.SendEvent("[DONE]");
  exchange.EndEvents();
  EXPECT_TRUE(exchange.is_cut_off());
}

TEST(Exchange, AGenerationStoppedForAClientThatLeftWasCutOff) {
  LeavingClient client;
  Exchange exchange(client, {});
  exchange.SendError({.code = ErrorCode::kCancelled, .message = "Gone.", .param = {}});
  EXPECT_TRUE(exchange.is_cut_off());
  EXPECT_EQ(exchange.status(), 499);
}

}  // namespace
}  // namespace http
