#include "api/token_logprobs.h"

#include <algorithm>
#include <string>

namespace api {
namespace {

// JSON has no infinity; OpenAI writes -9999 for what is impossible.
double Finite(float logprob) { return std::max(static_cast<double>(logprob), -9999.0); }

Json Entry(const chat::Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view bytes = tokenizer.TokenBytes(id);
  Json values = Json::array();
  for (const char byte : bytes) {
    values.push_back(static_cast<int>(static_cast<unsigned char>(byte)));
  }
  return {{"token", std::string(bytes)}, {"logprob", Finite(logprob)}, {"bytes", values}};
}

}  // namespace

Json ChatLogprobs(const chat::Tokenizer& tokenizer, const std::vector<TokenInfo>& tokens) {
  Json list = Json::array();
  for (const TokenInfo& token : tokens) {
    Json entry = Entry(tokenizer, token.id, token.sampled.logprob);
    entry["top_logprobs"] = Json::array();
    for (const engine::TokenLogprob& other : token.sampled.top_logprobs) {
      entry["top_logprobs"].push_back(Entry(tokenizer, other.token, other.logprob));
    }
    list.push_back(std::move(entry));
  }
  return list;
}

Json CompletionLogprobs(const chat::Tokenizer& tokenizer, const std::vector<TokenInfo>& tokens,
                        std::int64_t& text_offset) {
  Json result = {{"tokens", Json::array()},
                 {"token_logprobs", Json::array()},
                 {"top_logprobs", Json::array()},
                 {"text_offset", Json::array()}};
  for (const TokenInfo& token : tokens) {
    const std::string text(tokenizer.TokenBytes(token.id));
    result["tokens"].push_back(text);
    result["token_logprobs"].push_back(Finite(token.sampled.logprob));
    Json top = Json::object();
    for (const engine::TokenLogprob& other : token.sampled.top_logprobs) {
      top[std::string(tokenizer.TokenBytes(other.token))] = Finite(other.logprob);
    }
    result["top_logprobs"].push_back(std::move(top));
    result["text_offset"].push_back(text_offset);
    text_offset += CountCharacters(text);
  }
  return result;
}

std::int64_t CountCharacters(std::string_view text) {
  return std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; });
}

}  // namespace api
