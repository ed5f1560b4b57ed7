#include "chat/detokenizer.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "chat/utf8.h"

namespace chat {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer), options_(options) {}

std::string Detokenizer::Push(TokenId token) {
  if (options_.skip_special && tokenizer_.IsSpecial(token) &&
      (options_.shown == nullptr ||
       std::ranges::find(*options_.shown, token) == options_.shown->end())) {
    return {};
  }
  std::string_view bytes = tokenizer_.TokenBytes(token);
  if (options_.at_text_start && !bytes.empty()) {
    options_.at_text_start = false;
    if (tokenizer_.strips_first_space() && bytes.front() == ' ') {
      bytes.remove_prefix(1);
    }
  }
  pending_ += bytes;
  return TakeUtf8(pending_, /*at_end=*/false);
}

std::string Detokenizer::Flush() { return TakeUtf8(pending_, /*at_end=*/true); }

}  // namespace chat
