#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/parsed_reply.h"
#include "base/token_constraint.h"
#include "chat/conversation.h"

namespace api {

// A turn with calls as a model wrote it, and the prompt that it answered.
struct WrittenTurn {
  std::vector<TokenId> tokens{};  // without the one that ended it
  ParsedReply reply{};
  std::size_t prompt_bytes = 0;  // of its text
  std::size_t prompt_tokens = 0;
  std::uint64_t prompt_hash = 0;  // HashOf its tokens
};

[[nodiscard]] std::uint64_t HashOf(const std::vector<TokenId>& tokens);

// The turns with tool calls that a model wrote, token by token: clients send them back written in
// another way (keys and text kept, numbers and white space not), and the tokens that come of
// encoding that are not those in the bank. Turns are known by their calls' names and arguments,
// numbers by their value. The oldest are forgotten. Thread-safe.
class CallMemory {
 public:
  static constexpr std::size_t kDefaultBytes = 32U << 20;
  explicit CallMemory(std::size_t max_bytes = kDefaultBytes) : max_bytes_(max_bytes) {}

  // `owner`: what separates clients from each other. REQUIRES: `turn` has calls.
  void Remember(const std::string& owner, WrittenTurn turn);

  // The turns that have these calls (not empty): first those with their ids, which clients and
  // protocols may have put something before, then the latest.
  using Turns = std::vector<std::shared_ptr<const WrittenTurn>>;
  [[nodiscard]] Turns Recall(const std::string& owner,
                             const std::vector<chat::ToolCall>& calls) const;

  [[nodiscard]] std::size_t used_bytes() const;

 private:
  struct Entry {
    std::string owner;
    std::string calls;                        // CanonicalCalls
    std::shared_ptr<const WrittenTurn> turn;  // shared with requests under way
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;

  void ForgetOldest();

  const std::size_t max_bytes_;
  mutable std::mutex mutex_;  // guards what follows
  Entries entries_;           // the latest first
  std::unordered_map<std::string_view, std::vector<Entries::iterator>>
      by_calls_;  // by Entry::calls, the oldest first
  std::size_t bytes_ = 0;
};

}  // namespace api
