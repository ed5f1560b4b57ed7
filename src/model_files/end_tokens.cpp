#include "model_files/end_tokens.h"

#include <algorithm>
#include <array>

namespace model_files {
namespace {

// Tokens that end a turn, as published templates of the families write them.
constexpr auto kEndOfTurn = std::to_array<std::string_view>({
    "<|im_end|>",             // ChatML: Qwen, SmolLM
    "<|eot_id|>",             // Llama 3
    "<|eom_id|>",             // Llama 3.1, a turn that calls a built-in tool
    "<|eot|>",                // Llama 4
    "<end_of_turn>",          // Gemma 2 and 3
    "<turn|>",                // Gemma 4
    "<|end_of_turn|>",        // OpenChat
    "<|END_OF_TURN_TOKEN|>",  // Command R
    "<|endofturn|>",          // EXAONE
    "[e~[",                   // MiniMax
    "<|return|>",             // gpt-oss, the end of a final message
    "<|call|>",               // gpt-oss, the end of a tool call
});

constexpr auto kEndOfDocument = std::to_array<std::string_view>({
    "<|endoftext|>",    // Qwen, SmolLM
    "<|end_of_text|>",  // Llama 3
    "<eos>",            // Gemma
});

// Phi ends a turn with it; in gpt-oss (whose templates name channels) it only ends one of the
// turn's messages.
constexpr std::string_view kEnd = "<|end|>";
constexpr std::string_view kHarmonyMark = "<|channel|>";

// Collects the entries of the array "added_tokens" at the top level and stops behind it.
class AddedTokensScan : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return Number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return Number(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t& value) override {
    if (InEntry() && key_ == "content") {
      tokens.back().text = value;
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (InEntry()) {
      tokens.emplace_back();
    }
    return true;
  }
  bool key(string_t& value) override {
    key_ = value;
    if (depth_ == 1) {
      in_list_ = value == "added_tokens";
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return !(in_list_ && depth_ == 1);
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

  std::vector<AddedToken> tokens;

 private:
  static constexpr int kEntryDepth = 3;  // { "added_tokens": [ { here

  [[nodiscard]] bool InEntry() const { return in_list_ && depth_ == kEntryDepth; }
  bool Number(std::int64_t value) {
    if (InEntry() && key_ == "id") {
      tokens.back().id = value;
    }
    return true;
  }

  std::string key_;
  int depth_ = 0;
  bool in_list_ = false;
};

}  // namespace

std::vector<std::string_view> EndOfTurnTexts(const std::optional<std::string>& chat_template) {
  if (!chat_template) {
    return {kEndOfTurn.begin(), kEndOfTurn.end()};
  }
  std::vector<std::string_view> texts;
  std::ranges::copy_if(kEndOfTurn, std::back_inserter(texts), [&](std::string_view text) {
    return chat_template->find(text) != std::string::npos;
  });
  if (chat_template->find(kEnd) != std::string::npos &&
      chat_template->find(kHarmonyMark) == std::string::npos) {
    texts.push_back(kEnd);
  }
  return texts;
}

std::span<const std::string_view> EndOfDocumentTexts() { return kEndOfDocument; }

std::vector<AddedToken> ReadAddedTokens(std::string_view tokenizer_json) {
  AddedTokensScan scan;
  Json::sax_parse(tokenizer_json.begin(), tokenizer_json.end(), &scan);
  return std::move(scan.tokens);
}

void AddEndToken(std::vector<std::int64_t>& ids, std::int64_t id) {
  if (id >= 0 && std::ranges::find(ids, id) == ids.end()) {
    ids.push_back(id);
  }
}

void AddEndTokens(std::vector<std::int64_t>& ids, const Json& value) {
  if (value.is_number_integer()) {
    AddEndToken(ids, value.get<std::int64_t>());
  } else if (value.is_array()) {
    for (const Json& each : value) {
      if (each.is_number_integer()) {
        AddEndToken(ids, each.get<std::int64_t>());
      }
    }
  }
}

}  // namespace model_files
