#pragma once

#include <vector>

#include "api/generate.h"

namespace api {

// Log-probabilities as the chat endpoint writes them: one entry {token, logprob, bytes,
// top_logprobs} a token.
[[nodiscard]] Json ChatLogprobs(const chat::Tokenizer& tokenizer,
                                const std::vector<TokenInfo>& tokens);

// As the text completion endpoint writes them: {tokens, token_logprobs, top_logprobs, text_offset}.
// `text_offset`: characters before the first token; moved past the tokens.
[[nodiscard]] Json CompletionLogprobs(const chat::Tokenizer& tokenizer,
                                      const std::vector<TokenInfo>& tokens,
                                      std::int64_t& text_offset);

// Characters (code points) of UTF-8 text.
[[nodiscard]] std::int64_t CountCharacters(std::string_view text);

}  // namespace api
