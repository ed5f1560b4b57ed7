#include "api/prompt_boundaries.h"

#include <algorithm>
#include <cstddef>

namespace api {

std::vector<std::int64_t> BoundariesOf(const chat::Tokenizer& tokenizer,
                                       const std::vector<TokenId>& tokens,
                                       const PromptFacts& facts) {
  std::vector<std::size_t> bytes;
  const auto last_user = std::ranges::find(facts.messages.rbegin(), facts.messages.rend(),
                                           chat::Role::kUser, &PromptFacts::Message::role);
  if (last_user != facts.messages.rend()) {
    bytes.push_back(last_user->begin);
  }
  if (!facts.messages.empty() && facts.messages.back().begin != (bytes.empty() ? 0 : bytes[0])) {
    bytes.push_back(facts.messages.back().begin);
  }
  std::vector<std::int64_t> boundaries;
  std::size_t at = 0;
  for (std::size_t i = 0; i < tokens.size() && boundaries.size() < bytes.size(); ++i) {
    at += tokenizer.TokenBytes(tokens[i]).size();
    while (boundaries.size() < bytes.size() && at > bytes[boundaries.size()]) {
      boundaries.push_back(static_cast<std::int64_t>(i));
    }
  }
  return boundaries;
}

}  // namespace api
