#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "api/usage.h"
#include "base/json.h"
#include "base/token_constraint.h"
#include "chat/conversation.h"
#include "chat/tokenizer.h"

namespace api {

// What a prompt was rendered from, as far as it takes to explain where two prompts part.
struct PromptFacts {
  struct Message {
    chat::Role role = chat::Role::kUser;
    std::size_t begin = 0;    // byte of the rendered text up to which nothing is of it, about
    std::size_t end = 0;      // and after it
    std::size_t content = 0;  // hashes: equal content is equal
    std::size_t reasoning = 0;
  };
  std::vector<Message> messages = {};      // empty: a text without messages
  std::size_t tools = 0;                   // hash
  std::vector<std::string> left_out = {};  // rules by which texts of the client were
};

[[nodiscard]] PromptFacts FactsOf(const chat::Conversation& conversation,
                                  const std::string& rendered);

// Where a prompt parts from the nearest earlier one, and why it found less in the bank than it has.
struct Divergence {
  std::int64_t token = 0;              // position in the prompt
  std::optional<std::size_t> message;  // its number; nothing: a text without messages
  std::optional<chat::Role> role;
  std::string was;  // text around it in the earlier prompt and its reply
  std::string now;
  std::string cause;  // "system text changed"
};

// The last requests of one model: how much of each prompt was found in the bank, and for what was
// not, where it parts from the nearest earlier request. Thread-safe.
class RequestLog {
 public:
  // A prompt that is to be computed, held against the requests before it.
  class Watched;

  struct Incoming {
    std::vector<TokenId> prompt;
    PromptFacts facts;
    std::string salt;  // as of scheduler::Request: requests with another are not looked at
    std::string id;
    std::string normalize;         // --normalize
    std::size_t block_tokens = 0;  // prompts are banked in blocks of so many; 0: not at all
  };
  [[nodiscard]] Watched Watch(const chat::Tokenizer& tokenizer, Incoming incoming) const;
  // What became of it.
  struct Reply {
    std::vector<TokenId> tokens = {};
    bool has_reasoning = false;
  };
  void Add(Watched watched, const scheduler::RequestStats& stats, const Reply& reply);

  // The latest first, those of one tenant.
  [[nodiscard]] Json Latest(const std::string& tenant) const;

 private:
  struct Past {
    std::vector<TokenId> tokens;  // prompt and reply
    std::size_t prompt_tokens = 0;
    bool reply_has_reasoning = false;
    PromptFacts facts;
    std::string salt;
  };
  struct Line {
    std::string tenant;
    Json json;
  };

  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Past>> past_;  // the latest first
  std::size_t past_tokens_ = 0;
  std::deque<Line> lines_;
};

class RequestLog::Watched {
 public:
  Watched(Watched&&) = default;
  Watched& operator=(Watched&&) = default;

 private:
  friend class RequestLog;
  Watched() = default;
  Past own_;
  std::string request_id_;
  std::string normalize_;
  std::size_t block_tokens_ = 0;
  std::shared_ptr<const Past> nearest_;  // null: none begins like this
  std::size_t common_ = 0;               // tokens shared with it
  Divergence divergence_;
};

}  // namespace api
