#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token_constraint.h"
#include "chat/tokenizer.h"

namespace api {

// Replies that are written in place of those the model would choose (`serve --force-replies FILE`),
// so that real clients can be tested over the whole path without a clever model: every token's K
// and V is computed as always, but each is the only one that may be sampled. Limits of the
// request hold (max_tokens, stop strings), demands on its form do not. Thread-safe.
class ForcedReplies {
 public:
  // `json`: a list of "TEXT" or {"text": "TEXT", "when": "SUBSTRING"}; texts are the model's own
  // output, special tokens and all, without the end token. A request whose latest messages contain
  // a `when` gets the first such reply, every time; the others go to the remaining requests in
  // their order, each once. `vocab_size`: of the logits. Errors (kInvalidRequest): another form, no
  // end token.
  [[nodiscard]] static Result<std::unique_ptr<ForcedReplies>> Parse(
      const std::string& json, const chat::Tokenizer& tokenizer,
      const std::vector<TokenId>& eos_ids, int vocab_size);

  // The reply to a request with this GenerationInput::latest. Error (kInvalidRequest): none is
  // left.
  [[nodiscard]] Result<std::unique_ptr<TokenConstraint>> Next(std::string_view latest);

 private:
  struct ForcedReply {
    std::string when;             // empty: in its turn
    std::vector<TokenId> tokens;  // the end token last
  };
  ForcedReplies(std::vector<ForcedReply> replies, int vocab_size)
      : replies_(std::move(replies)), vocab_size_(vocab_size) {}

  const std::vector<ForcedReply> replies_;
  const int vocab_size_;
  std::mutex mutex_;
  std::size_t next_ = 0;  // the first that has not had its turn
};

}  // namespace api
