#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "chat/gguf_tokenizer.h"

// How published tokenizers split words, by the name under which GGUF files refer to them. Each
// pattern is a fact of the model's own tokenizer.json.

namespace chat {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// U+4E00-U+9FA5 and Hiragana, Katakana; U+4E00-U+9FA5 and U+0800-U+4E00, Hangul.
constexpr std::string_view kDeepSeek3Cjk =
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+";
constexpr std::string_view kDeepSeekCjk =
    "[\xE4\xB8\x80-\xE9\xBE\xA5\xE0\xA0\x80-\xE4\xB8\x80\xEA\xB0\x80-\xED\x9F\xBF]+";

Json Split(std::string_view regex) {
  return {{"type", "Split"},
          {"pattern", {{"Regex", regex}}},
          {"behavior", "Isolated"},
          {"invert", false}};
}

Json Digits(bool individual) { return {{"type", "Digits"}, {"individual_digits", individual}}; }

Json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

// The rules in order, then bytes to GPT-2's characters.
Json Sequence(std::initializer_list<Json> rules, bool gpt2_regex = false) {
  Json list = Json::array();
  for (const Json& rule : rules) {
    list.push_back(rule);
  }
  list.push_back(ByteLevel(gpt2_regex));
  return {{"type", "Sequence"}, {"pretokenizers", list}};
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view candidate : names) {
    if (candidate == name) {
      return true;
    }
  }
  return false;
}

PreTokenizer Known(Json pre_tokenizer) {
  return {.known = true, .pre_tokenizer = std::move(pre_tokenizer)};
}

PreTokenizer DeepSeekNamed(std::string_view pre) {
  if (IsOneOf(pre, {"deepseek-v3", "deepseek-r1", "hunyuan-dense"})) {
    return Known(Sequence({Split(R"(\p{N}{1,3})"), Split(kDeepSeek3Cjk), Split(kDeepSeek3)}));
  }
  return Known(Sequence({Split("[\r\n]"), Split(R"(\s?\p{L}+)"), Split(R"(\s?\p{P}+)"),
                         Split(kDeepSeekCjk), Digits(/*individual=*/true)}));
}

// Where a file names no rule or one that is not known. No published tokenizer.
Json DefaultRule() {
  return Sequence({Split(R"([\p{P}\$\+<=>\^~\|]+)"), Split(kGpt2), Split(R"(\p{N}+)"),
                   Split("[0-9][0-9][0-9]")});
}

}  // namespace

PreTokenizer PreTokenizerNamed(std::string_view pre) {
  if (IsOneOf(pre, {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "dbrx", "smaug-bpe",
                    "lfm2"})) {
    PreTokenizer rule = Known(Sequence({Split(kLlama3)}));
    rule.ignore_merges = true;
    return rule;
  }
  if (IsOneOf(pre, {"chatglm-bpe", "glm4"})) {
    return Known(Sequence({Split(kLlama3)}));
  }
  if (IsOneOf(pre, {"qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"})) {
    PreTokenizer rule = Known(Sequence({Split(kQwen2)}));
    rule.normalize_nfc = pre != "stablelm2" && pre != "hunyuan";
    return rule;
  }
  if (pre == "qwen35") {
    PreTokenizer rule = Known(Sequence({Split(kQwen35)}));
    rule.normalize_nfc = true;
    return rule;
  }
  if (IsOneOf(pre, {"tekken", "pixtral"})) {
    PreTokenizer rule = Known(Sequence({Split(kTekken)}));
    rule.ignore_merges = true;
    return rule;
  }
  if (IsOneOf(pre, {"gpt-4o", "llama4"})) {
    return Known(Sequence({Split(kGpt4o)}));
  }
  if (IsOneOf(pre,
              {"deepseek-llm", "deepseek-coder", "deepseek-v3", "deepseek-r1", "hunyuan-dense"})) {
    return DeepSeekNamed(pre);
  }
  if (IsOneOf(pre, {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone",
                    "minerva-7b"})) {
    return Known(Sequence({Digits(/*individual=*/true)}, /*gpt2_regex=*/true));
  }
  if (IsOneOf(pre, {"gpt-2", "gpt2", "phi-2", "olmo", "jais", "trillion", "granite-docling",
                    "roberta-bpe", "gigachat", "mpt"})) {
    return Known(Sequence({}, /*gpt2_regex=*/true));
  }
  if (pre == "falcon") {
    return Known(
        Sequence({Split(R"([\p{P}\$\+<=>\^~\|`]+)"), Split(kGpt2), Split("[0-9][0-9][0-9]")}));
  }
  return {.known = pre == "default" || pre.empty(), .pre_tokenizer = DefaultRule()};
}

}  // namespace chat
