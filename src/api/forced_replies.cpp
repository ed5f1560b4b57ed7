#include "api/forced_replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/json.h"

namespace api {
namespace {

// One token after the other, and nothing else.
class ForcedTokens final : public TokenConstraint {
 public:
  ForcedTokens(std::vector<TokenId> tokens, int vocab_size)
      : tokens_(std::move(tokens)), words_((static_cast<std::size_t>(vocab_size) + 31) / 32) {}

  Result<std::span<const std::uint32_t>> AllowedTokens() override {
    const auto id = static_cast<std::size_t>(tokens_[std::min(next_, tokens_.size() - 1)]);
    words_[shown_ / 32] = 0;
    words_.at(id / 32) |= 1U << (id % 32);
    shown_ = id;
    return std::span<const std::uint32_t>(words_);
  }

  Result<void> Accept(TokenId /*token*/) override {
    ++next_;
    return {};
  }

 private:
  std::vector<TokenId> tokens_;
  std::vector<std::uint32_t> words_;
  std::size_t shown_ = 0;  // the id whose bit is set
  std::size_t next_ = 0;
};

struct Written {
  std::string text;
  std::string when;
};

// Nothing: another form.
std::optional<Written> ReadWritten(const Json& json) {
  if (json.is_string()) {
    return Written{.text = json.get<std::string>(), .when = {}};
  }
  if (!json.is_object()) {
    return std::nullopt;
  }
  const Json text = json.value("text", Json());
  const Json when = json.value("when", Json(""));
  if (!text.is_string() || !when.is_string()) {
    return std::nullopt;
  }
  return Written{.text = text.get<std::string>(), .when = when.get<std::string>()};
}

}  // namespace

Result<std::unique_ptr<ForcedReplies>> ForcedReplies::Parse(const std::string& json,
                                                            const chat::Tokenizer& tokenizer,
                                                            const std::vector<TokenId>& eos_ids,
                                                            int vocab_size) {
  const Result<Json> list = ParseJson(json);
  if (!list) {
    return Fail(list.error());
  }
  if (!list->is_array() || list->empty()) {
    return Fail(ErrorCode::kInvalidRequest, "it must be a JSON list of at least one reply.");
  }
  if (eos_ids.empty()) {
    return Fail(ErrorCode::kInvalidRequest, "the model names no end token to end a reply with.");
  }
  std::vector<ForcedReply> replies;
  for (const Json& item : *list) {
    const std::optional<Written> written = ReadWritten(item);
    if (!written) {
      return Fail(
          ErrorCode::kInvalidRequest,
          fmt::format("reply {} must be a string or {{\"text\": STRING, \"when\": STRING}}.",
                      replies.size()));
    }
    Result<std::vector<TokenId>> tokens = tokenizer.Encode(
        written->text, chat::Tokenizer::SpecialTokens::kParse, /*add_special=*/false);
    if (!tokens) {
      return Fail(tokens.error());
    }
    tokens->push_back(eos_ids.front());
    if (std::ranges::any_of(*tokens, [&](TokenId id) { return id < 0 || id >= vocab_size; })) {
      return Fail(
          ErrorCode::kInvalidRequest,
          fmt::format("reply {} has a token that the model does not have.", replies.size()));
    }
    replies.push_back({.when = written->when, .tokens = std::move(*tokens)});
  }
  return std::unique_ptr<ForcedReplies>(
      new ForcedReplies(std::move(replies), vocab_size));  // NOLINT: private constructor
}

Result<std::unique_ptr<TokenConstraint>> ForcedReplies::Next(std::string_view latest) {
  const auto answer = [this](const ForcedReply& reply) {
    return std::make_unique<ForcedTokens>(reply.tokens, vocab_size_);
  };
  for (const ForcedReply& reply : replies_) {
    if (!reply.when.empty() && latest.find(reply.when) != std::string_view::npos) {
      return answer(reply);
    }
  }
  const std::lock_guard lock(mutex_);
  while (next_ < replies_.size() && !replies_[next_].when.empty()) {
    ++next_;
  }
  if (next_ == replies_.size()) {
    return Fail(ErrorCode::kInvalidRequest,
                "No forced reply is left for this request (--force-replies).");
  }
  return answer(replies_[next_++]);
}

}  // namespace api
