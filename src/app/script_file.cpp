#include "app/script_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"

namespace app {
namespace {

std::string BytesOf(const std::vector<TokenId>& tokens, const chat::Tokenizer& tokenizer) {
  std::string bytes;
  for (const TokenId token : tokens) {
    bytes += tokenizer.TokenBytes(token);
  }
  return bytes;
}

// Longest token first, again and again: finds single-byte tokens where nothing else fits.
Result<std::vector<TokenId>> LongestMatches(std::string_view bytes,
                                            const chat::Tokenizer& tokenizer) {
  std::unordered_map<std::string_view, TokenId> ids;
  std::size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    const std::string_view text = tokenizer.TokenBytes(id);
    if (!text.empty() && !tokenizer.IsSpecial(id)) {
      ids.try_emplace(text, id);
      longest = std::max(longest, text.size());
    }
  }
  std::vector<TokenId> tokens;
  while (!bytes.empty()) {
    std::size_t size = std::min(longest, bytes.size());
    while (size > 0 && !ids.contains(bytes.substr(0, size))) {
      --size;
    }
    if (size == 0) {
      return Fail(ErrorCode::kInvalidRequest,
                  fmt::format("The vocabulary has no token for the byte 0x{:02x}.",
                              static_cast<unsigned char>(bytes.front())));
    }
    tokens.push_back(ids.at(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return tokens;
}

// Where the first added token in `bytes` stands, the longest of those that begin there.
struct Place {
  std::size_t at = std::string_view::npos;
  std::size_t size = 0;
  TokenId id = 0;
};
Place FirstAddedToken(std::string_view bytes, const chat::Tokenizer& tokenizer) {
  Place first;
  for (const chat::Tokenizer::AddedToken& added : tokenizer.added_tokens()) {
    const std::size_t at = added.text.empty() ? std::string_view::npos : bytes.find(added.text);
    if (at < first.at ||
        (at != std::string_view::npos && at == first.at && added.text.size() > first.size)) {
      first = {.at = at, .size = added.text.size(), .id = added.id};
    }
  }
  return first;
}

Result<std::string> BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const char* begin = hex.data() + i;
    const auto [end, error] =
        std::from_chars(begin, begin + std::min<std::size_t>(2, hex.size() - i), value, 16);
    if (error != std::errc{} || end != begin + 2) {
      return Fail(ErrorCode::kInvalidRequest, fmt::format("\"{}\" is not hexadecimal.", hex));
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

Result<std::vector<std::string>> ReadChunks(const Json& json) {
  const bool hex = json.contains("chunks_hex");
  const auto list = json.find(hex ? "chunks_hex" : "chunks");
  if (list == json.end() || !list->is_array()) {
    return Fail(ErrorCode::kInvalidRequest, "`chunks` or `chunks_hex` must be a list of strings.");
  }
  std::vector<std::string> chunks;
  for (const Json& chunk : *list) {
    if (!chunk.is_string()) {
      return Fail(ErrorCode::kInvalidRequest, "`chunks` must be a list of strings.");
    }
    const auto& text = chunk.get_ref<const std::string&>();
    Result<std::string> bytes = hex ? BytesOfHex(text) : Result<std::string>(text);
    if (!bytes) {
      return Fail(bytes.error());
    }
    chunks.push_back(std::move(*bytes));
  }
  return chunks;
}

Result<ScriptFile> ParseScript(const std::string& text, const chat::Tokenizer& tokenizer) {
  const Result<Json> json = ParseJson(text);
  if (!json) {
    return Fail(json.error());
  }
  if (!json->is_object()) {
    return Fail(ErrorCode::kInvalidRequest, "it must be a JSON object.");
  }
  const Result<std::vector<std::string>> chunks = ReadChunks(*json);
  if (!chunks) {
    return Fail(chunks.error());
  }
  ScriptFile file;
  for (const std::string& chunk : *chunks) {
    const Result<std::vector<TokenId>> tokens = TokensOfBytes(chunk, tokenizer);
    if (!tokens) {
      return Fail(tokens.error());
    }
    file.script.tokens.insert(file.script.tokens.end(), tokens->begin(), tokens->end());
  }
  const Json finish = json->value("finish", Json("stop"));
  const Json delay = json->value("prefill_delay_s", Json(0.0));
  if (finish != "stop" && finish != "length" && finish != "engine_error") {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`finish` must be \"stop\", \"length\" or \"engine_error\", got {}.",
                            DumpJson(finish)));
  }
  if (!delay.is_number() || delay.get<double>() < 0) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`prefill_delay_s` must be a number >= 0, got {}.", DumpJson(delay)));
  }
  file.ends_by_length = finish == "length";
  file.script.fails_at_end = finish == "engine_error";
  file.script.prefill_delay_s = delay.get<double>();
  return file;
}

}  // namespace

Result<std::vector<TokenId>> TokensOfBytes(const std::string& bytes,
                                           const chat::Tokenizer& tokenizer) {
  Result<std::vector<TokenId>> encoded =
      tokenizer.Encode(bytes, chat::Tokenizer::SpecialTokens::kParse, /*add_special=*/false);
  if (encoded && BytesOf(*encoded, tokenizer) == bytes) {
    return encoded;
  }
  // Parts of characters, or a tokenizer that adds a space.
  std::vector<TokenId> tokens;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Place added = FirstAddedToken(rest, tokenizer);
    const Result<std::vector<TokenId>> before = LongestMatches(rest.substr(0, added.at), tokenizer);
    if (!before) {
      return before;
    }
    tokens.insert(tokens.end(), before->begin(), before->end());
    if (added.at == std::string_view::npos) {
      break;
    }
    tokens.push_back(added.id);
    rest.remove_prefix(added.at + added.size);
  }
  return tokens;
}

Result<ScriptFile> ReadScript(const std::string& path, const chat::Tokenizer& tokenizer,
                              TokenId eos) {
  std::ifstream input(path, std::ios::binary);
  if (!input) {
    return Fail(ErrorCode::kIo, fmt::format("The script {} cannot be read.", path));
  }
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  Result<ScriptFile> file = ParseScript(text, tokenizer);
  if (!file) {
    return Fail(file.error().code,
                fmt::format("The script {} cannot be used: {}", path, file.error().message));
  }
  file->script.eos = eos;
  return file;
}

}  // namespace app
