#include "chat/gguf_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.h"

namespace chat {
namespace {

using model_files::GgufVocabulary;
using model_files::TokenizerFiles;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, SentencePiece's space

// tokenizer.ggml.token_type
enum TokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

TokenType TypeOf(const GgufVocabulary& vocabulary, std::size_t id) {
  return id < vocabulary.token_types.size() ? static_cast<TokenType>(vocabulary.token_types[id])
                                            : kNormal;
}

// SentencePiece vocabularies: converters write runs of spaces that are tokens of their own with
// plain spaces; the model's tokenizer.json has SentencePiece's mark.
void MarkSpaces(GgufVocabulary& vocabulary) {
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    std::string& token = vocabulary.tokens[id];
    for (std::size_t at = token.find(' '); at != std::string::npos; at = token.find(' ', at)) {
      token.replace(at, 1, kSpaceMark);
    }
  }
}

Json AddedTokens(const GgufVocabulary& vocabulary) {
  Json added = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const TokenType type = TypeOf(vocabulary, id);
    if ((type == kControl || type == kUserDefined || type == kUnknown) &&
        !vocabulary.tokens[id].empty()) {
      added.push_back({{"id", id},
                       {"content", vocabulary.tokens[id]},
                       {"single_word", false},
                       {"lstrip", false},
                       {"rstrip", false},
                       {"normalized", false},
                       {"special", type != kUserDefined}});
    }
  }
  return added;
}

// BOS and EOS, where the file says that the tokenizer adds them.
Json PostProcessor(const TokenizerFiles& files, bool bos_by_default) {
  const GgufVocabulary& vocabulary = *files.gguf;
  Json single = Json::array();
  Json special = Json::object();
  const auto add = [&](const std::string& token) {
    const auto found = std::find(vocabulary.tokens.begin(), vocabulary.tokens.end(), token);
    if (token.empty() || found == vocabulary.tokens.end()) {
      return;
    }
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token},
                      {"ids", Json::array({found - vocabulary.tokens.begin()})},
                      {"tokens", Json::array({token})}};
  };
  if (vocabulary.add_bos.value_or(bos_by_default)) {
    add(files.bos_token);
  }
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (vocabulary.add_eos.value_or(false)) {
    add(files.eos_token);
  }
  if (special.empty()) {
    return nullptr;
  }
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", Json::array({{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
                                {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}})},
          {"special_tokens", special}};
}

// Vocabulary and merges go beside the JSON: as JSON values they would cost seconds.
Json BpeModel() {
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", false},
          {"vocab", Json::object()},
          {"merges", Json::array()}};
}

Json Whole(Json added_tokens, Json model) {
  return {{"version", "1.0"},          {"truncation", nullptr},
          {"padding", nullptr},        {"added_tokens", std::move(added_tokens)},
          {"normalizer", nullptr},     {"pre_tokenizer", nullptr},
          {"post_processor", nullptr}, {"decoder", nullptr},
          {"model", std::move(model)}};
}

// Both use up the vocabulary.
Result<GgufTokenizer> ByteLevelBpe(TokenizerFiles& files) {
  GgufVocabulary& vocabulary = *files.gguf;
  GgufTokenizer tokenizer;
  tokenizer.merge_texts = std::move(vocabulary.merges);
  tokenizer.merges.reserve(tokenizer.merge_texts.size());
  for (const std::string_view merge : tokenizer.merge_texts) {
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string::npos) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("The GGUF vocabulary has a merge without a space: \"{}\".", merge));
    }
    tokenizer.merges.emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  PreTokenizer pre = PreTokenizerNamed(vocabulary.pre);
  if (!pre.known) {
    spdlog::warn("The GGUF file splits words by the unknown rule \"{}\"; the default rule is used.",
                 vocabulary.pre);
  }
  Json json = Whole(AddedTokens(vocabulary), BpeModel());
  json["model"]["ignore_merges"] = pre.ignore_merges;
  if (pre.normalize_nfc) {
    json["normalizer"] = {{"type", "NFC"}};
  }
  json["pre_tokenizer"] = std::move(pre.pre_tokenizer);
  json["post_processor"] = PostProcessor(files, /*bos_by_default=*/false);
  json["decoder"] = {{"type", "ByteLevel"},
                     {"add_prefix_space", false},
                     {"trim_offsets", false},
                     {"use_regex", false}};
  tokenizer.json = DumpJson(json);
  tokenizer.tokens = std::move(vocabulary.tokens);
  return tokenizer;
}

// SentencePiece merges two neighbours when the joined text is a token, best score first. A list of
// merges says the same: every way to cut a token in two tokens, ordered by score (transformers,
// convert_slow_tokenizer.py, generate_merges, whose order among equal scores is kept).
struct Merge {
  float score = 0;
  std::size_t left_length = 0;  // in characters
  std::size_t right_length = 0;
  std::int32_t left = 0;
  std::int32_t right = 0;
};

bool TakesPartInMerges(TokenType type) {
  return type == kNormal || type == kUnused || type == kUserDefined;
}

class MergeList {
 public:
  explicit MergeList(const GgufVocabulary& vocabulary) : vocabulary_(vocabulary) {
    ids_.reserve(vocabulary.tokens.size());
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (TakesPartInMerges(TypeOf(vocabulary, id))) {
        ids_.emplace(vocabulary.tokens[id], static_cast<std::int32_t>(id));
      }
    }
    for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
      if (TakesPartInMerges(TypeOf(vocabulary, id))) {
        AddCutsOf(id);
      }
    }
    std::stable_sort(merges_.begin(), merges_.end(), [](const Merge& a, const Merge& b) {
      return std::tie(a.score, a.left_length, a.right_length) >
             std::tie(b.score, b.left_length, b.right_length);
    });
  }

  // Views of the vocabulary's tokens.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> Pairs() const {
    std::vector<std::pair<std::string_view, std::string_view>> pairs;
    pairs.reserve(merges_.size());
    for (const Merge& merge : merges_) {
      pairs.emplace_back(vocabulary_.tokens[static_cast<std::size_t>(merge.left)],
                         vocabulary_.tokens[static_cast<std::size_t>(merge.right)]);
    }
    return pairs;
  }

 private:
  void AddCutsOf(std::size_t id) {
    const std::string_view token = vocabulary_.tokens[id];
    std::vector<std::size_t> cuts;
    for (std::size_t at = 1; at < token.size(); ++at) {
      if ((static_cast<unsigned char>(token[at]) & 0xC0U) != 0x80U) {
        cuts.push_back(at);
      }
    }
    const auto first = static_cast<std::ptrdiff_t>(merges_.size());
    // SentencePiece gives user-defined tokens no score, which is the best; converters write
    // something else there.
    const float score = TypeOf(vocabulary_, id) == kUserDefined ? 0.0F : vocabulary_.scores[id];
    for (std::size_t n = 0; n < cuts.size(); ++n) {
      const auto left = ids_.find(token.substr(0, cuts[n]));
      const auto right = ids_.find(token.substr(cuts[n]));
      if (left != ids_.end() && right != ids_.end()) {
        merges_.push_back({.score = score,
                           .left_length = n + 1,
                           .right_length = cuts.size() - n,
                           .left = left->second,
                           .right = right->second});
      }
    }
    std::sort(merges_.begin() + first, merges_.end(), [](const Merge& a, const Merge& b) {
      return std::tie(a.left, a.right) < std::tie(b.left, b.right);
    });
  }

  const GgufVocabulary& vocabulary_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::vector<Merge> merges_;
};

std::string UnknownToken(const TokenizerFiles& files) {
  const GgufVocabulary& vocabulary = *files.gguf;
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (TypeOf(vocabulary, id) == kUnknown) {
      return vocabulary.tokens[id];
    }
  }
  return files.unk_token;
}

Json SpaceReplacement(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Result<GgufTokenizer> SentencePiece(TokenizerFiles& files) {
  MarkSpaces(*files.gguf);
  GgufVocabulary& vocabulary = *files.gguf;
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The GGUF vocabulary has {} tokens but {} scores.",
                            vocabulary.tokens.size(), vocabulary.scores.size()));
  }
  const bool prefix = vocabulary.add_space_prefix.value_or(true);
  Json json = Whole(AddedTokens(vocabulary), BpeModel());
  const std::string unknown = UnknownToken(files);
  json["model"]["unk_token"] = unknown.empty() ? Json(nullptr) : Json(unknown);
  json["model"]["fuse_unk"] = true;
  json["model"]["byte_fallback"] = true;

  json["normalizer"] = SpaceReplacement(" ", kSpaceMark);
  Json decoders = Json::array(
      {SpaceReplacement(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) {
    json["normalizer"] = {
        {"type", "Sequence"},
        {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", kSpaceMark}},
                                     SpaceReplacement(" ", kSpaceMark)})}};
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  json["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  json["post_processor"] = PostProcessor(files, /*bos_by_default=*/true);
  GgufTokenizer tokenizer;
  tokenizer.json = DumpJson(json);
  tokenizer.merges = MergeList(vocabulary).Pairs();
  tokenizer.tokens = std::move(vocabulary.tokens);  // their addresses stay
  return tokenizer;
}

}  // namespace

Result<GgufTokenizer> MakeGgufTokenizer(TokenizerFiles files) {
  const GgufVocabulary& vocabulary = *files.gguf;
  if (vocabulary.tokens.empty()) {
    return Fail(ErrorCode::kBadModel, "The GGUF file has no tokens (tokenizer.ggml.tokens).");
  }
  if (vocabulary.model == "gpt2") {
    return ByteLevelBpe(files);
  }
  if (vocabulary.model == "llama") {
    return SentencePiece(files);
  }
  return Fail(
      ErrorCode::kBadModel,
      fmt::format("The GGUF tokenizer kind \"{}\" is not supported; \"gpt2\" and \"llama\" are.",
                  vocabulary.model));
}

}  // namespace chat
