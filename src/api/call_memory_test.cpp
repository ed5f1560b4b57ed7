#include "api/call_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace api {
namespace {

void Remember(CallMemory& memory, const std::string& owner, const std::string& id,
              const std::string& arguments, TokenId token) {
  WrittenTurn turn;
  turn.tokens = {token};
  turn.reply.calls = {{.id = id, .name = "f", .arguments = arguments}};
  memory.Remember(owner, std::move(turn));
}

// The first token of each turn that is recalled for such a call.
std::vector<TokenId> Recalled(const CallMemory& memory, const std::string& owner,
                              const std::string& id, const Json& arguments) {
  std::vector<TokenId> tokens;
  for (const auto& turn : memory.Recall(owner, {{.id = id, .name = "f", .arguments = arguments}})) {
    tokens.push_back(turn->tokens.front());
  }
  return tokens;
}

using Tokens = std::vector<TokenId>;

TEST(CallMemory, KnowsACallByItsValuesHoweverItIsWritten) {
  CallMemory memory;
  Remember(memory, "o", "x1", R"({"k":  5000.0, "a": [1e2, 1e17], "s": "caf\u00e9"})", 1);
  EXPECT_EQ(Recalled(memory, "o", "x1",
                     Json::parse(R"({"s":"caf\u00e9","a":[100,100000000000000000],"k":5000})")),
            Tokens{1});
  EXPECT_EQ(Recalled(memory, "o", "other", R"({"k":5e3,"a":[100.0,1e17],"s":"caf\u00E9"})"),
            Tokens{1});
  EXPECT_EQ(Recalled(memory, "o", "x1", R"({"k":5001,"a":[100.0,1e17],"s":"caf\u00E9"})"),
            Tokens{});
  EXPECT_EQ(Recalled(memory, "o", "x1", R"({"k":"5000","a":[100.0,1e17],"s":"caf\u00E9"})"),
            Tokens{});
  EXPECT_EQ(Recalled(memory, "o", "x1", R"({"k":5000,"a":[100.0,1e17],"s":"cafe"})"), Tokens{});
  EXPECT_EQ(Recalled(memory, "p", "x1", R"({"k":5000,"a":[100.0,1e17],"s":"caf\u00E9"})"),
            Tokens{});
}

TEST(CallMemory, TellsWholeNumbersApartThatADoubleCannot) {
  CallMemory memory;
  Remember(memory, "o", "x", R"({"n": 9007199254740993})", 1);
  EXPECT_EQ(Recalled(memory, "o", "x", R"({"n":9007199254740992})"), Tokens{});
  EXPECT_EQ(Recalled(memory, "o", "x", R"({"n":9007199254740993})"), Tokens{1});
}

TEST(CallMemory, OfSeveralAlikeGivesTheClientsIdsFirstThenTheLatest) {
  CallMemory memory;
  Remember(memory, "o", "x1", "{}", 1);
  Remember(memory, "o", "x2", "{}", 2);
  Remember(memory, "o", "x3", "{}", 3);
  EXPECT_EQ(Recalled(memory, "o", "toolu_x1", Json::object()), (Tokens{1, 3, 2}));
  EXPECT_EQ(Recalled(memory, "o", "callx2", Json::object()), (Tokens{2, 3, 1}));
  EXPECT_EQ(Recalled(memory, "o", "lost", Json::object()), (Tokens{3, 2, 1}));
}

TEST(CallMemory, ForgetsTheOldestWhenItIsFull) {
  CallMemory memory(20000);
  for (int i = 0; i < 100; ++i) {
    Remember(memory, "o", "x", Json{{"i", i}}.dump(), i);
    Remember(memory, "o", "x", "{}", i);
    EXPECT_LE(memory.used_bytes(), 20000U);
  }
  EXPECT_EQ(Recalled(memory, "o", "x", {{"i", 99}}), Tokens{99});
  EXPECT_EQ(Recalled(memory, "o", "x", {{"i", 0}}), Tokens{});
  EXPECT_EQ(Recalled(memory, "o", "x", Json::object()).front(), 99);
  Remember(memory, "o", "x", Json{{"long", std::string(30000, 'a')}}.dump(), 1);
  EXPECT_EQ(Recalled(memory, "o", "x", {{"i", 99}}), Tokens{99}) << "one too long for it all";
}

}  // namespace
}  // namespace api
