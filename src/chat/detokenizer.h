#pragma once

#include <string>
#include <vector>

#include "chat/tokenizer.h"

namespace chat {

// Token ids to text, piece by piece: what Push and Flush return, joined, is the decoded whole; no
// piece ends inside a UTF-8 character (bytes wait for the rest; what can never become one is
// U+FFFD). Special tokens are left out unless asked for. The leading space that SentencePiece adds
// to a text's first word is dropped only when `at_text_start`.
class Detokenizer {
 public:
  struct Options {
    bool skip_special = true;
    // Special tokens that are not left out all the same; may be null, else it outlives this.
    const std::vector<TokenId>* shown = nullptr;
    bool at_text_start = false;
  };
  Detokenizer(const Tokenizer& tokenizer, Options options);

  [[nodiscard]] std::string Push(TokenId token);
  [[nodiscard]] std::string Flush();

 private:
  const Tokenizer& tokenizer_;
  Options options_;
  std::string pending_;  // bytes of an unfinished character
};

}  // namespace chat
