#include "model_files/gguf_vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "model_files/end_tokens.h"

namespace model_files {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTemplate = "tokenizer.chat_template";

constexpr std::int32_t kControl = 3;  // GgufVocabulary::token_types
constexpr std::int32_t kUserDefined = 4;

std::string TokenText(const GgufMetadata& metadata, std::string_view id_key) {
  const std::optional<std::int64_t> id = metadata.Integer(id_key);
  if (!id || *id < 0) {
    return {};
  }
  return std::string(metadata.TextAt(kTokens, static_cast<std::uint64_t>(*id)).value_or(""));
}

Result<void> CheckLength(std::size_t length, std::size_t expected, std::string_view key,
                         std::string_view file_name) {
  if (length == expected || length == 0) {
    return {};
  }
  return Fail(ErrorCode::kBadModel, fmt::format("{} is damaged: `{}` has {} entries for {} tokens.",
                                                file_name, key, length, expected));
}

Result<GgufVocabulary> ReadVocabulary(const GgufMetadata& metadata, std::string_view file_name) {
  GgufVocabulary vocabulary;
  vocabulary.model = metadata.Text("tokenizer.ggml.model").value_or("");
  vocabulary.pre = metadata.Text("tokenizer.ggml.pre").value_or("");
  vocabulary.tokens = metadata.Texts(kTokens);
  vocabulary.scores = metadata.Floats("tokenizer.ggml.scores");
  for (const std::int64_t type : metadata.Integers("tokenizer.ggml.token_type")) {
    vocabulary.token_types.push_back(static_cast<std::int32_t>(type));
  }
  vocabulary.merges = metadata.Texts("tokenizer.ggml.merges");
  vocabulary.add_bos = metadata.Bool("tokenizer.ggml.add_bos_token");
  vocabulary.add_eos = metadata.Bool("tokenizer.ggml.add_eos_token");
  vocabulary.add_space_prefix = metadata.Bool("tokenizer.ggml.add_space_prefix");
  const std::size_t n_tokens = vocabulary.tokens.size();
  if (n_tokens == 0 || vocabulary.model.empty()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} holds no tokenizer (`tokenizer.ggml.model` and `{}`).", file_name,
                            kTokens));
  }
  if (Result<void> fits =
          CheckLength(vocabulary.scores.size(), n_tokens, "tokenizer.ggml.scores", file_name);
      !fits) {
    return Fail(fits.error());
  }
  if (Result<void> fits = CheckLength(vocabulary.token_types.size(), n_tokens,
                                      "tokenizer.ggml.token_type", file_name);
      !fits) {
    return Fail(fits.error());
  }
  return vocabulary;
}

}  // namespace

Result<TokenizerFiles> ReadGgufTokenizer(const GgufMetadata& metadata, std::string_view file_name) {
  Result<GgufVocabulary> vocabulary = ReadVocabulary(metadata, file_name);
  if (!vocabulary) {
    return Fail(vocabulary.error());
  }
  TokenizerFiles files;
  files.gguf = std::move(*vocabulary);
  if (const auto text = metadata.Text(kTemplate); text && !text->empty()) {
    files.chat_template = std::string(*text);
  }
  const std::string named = std::string(kTemplate) + ".";
  for (const auto& [key, value] : metadata.values()) {
    if (key.starts_with(named) && value.type == GgufType::kString) {
      files.named_templates.emplace(key.substr(named.size()), metadata.Text(key).value_or(""));
    }
  }
  files.bos_token = TokenText(metadata, "tokenizer.ggml.bos_token_id");
  files.eos_token = TokenText(metadata, "tokenizer.ggml.eos_token_id");
  files.unk_token = TokenText(metadata, "tokenizer.ggml.unknown_token_id");
  files.pad_token = TokenText(metadata, "tokenizer.ggml.padding_token_id");
  return files;
}

std::vector<std::int64_t> ReadGgufEndTokens(const GgufMetadata& metadata,
                                            const TokenizerFiles& tokenizer) {
  std::vector<std::int64_t> ids;
  for (const std::string_view role : {"eos", "eot", "eom"}) {
    AddEndToken(ids,
                metadata.Integer(fmt::format("tokenizer.ggml.{}_token_id", role)).value_or(-1));
  }
  std::vector<std::string_view> texts = EndOfTurnTexts(tokenizer.chat_template);
  // The original's generation_config.json names these beside the end of turn; the converter keeps
  // only one id.
  texts.insert(texts.end(), EndOfDocumentTexts().begin(), EndOfDocumentTexts().end());
  const GgufVocabulary& vocabulary = *tokenizer.gguf;
  for (std::size_t id = 0; id < vocabulary.token_types.size(); ++id) {
    const std::int32_t type = vocabulary.token_types[id];
    if ((type == kControl || type == kUserDefined) &&
        std::ranges::find(texts, vocabulary.tokens[id]) != texts.end()) {
      AddEndToken(ids, static_cast<std::int64_t>(id));
    }
  }
  return ids;
}

}  // namespace model_files
