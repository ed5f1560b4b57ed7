#include "model_files/tokenizer_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model_files/end_tokens.h"
#include "model_files/read_text_file.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDefaultName = "default";

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

Result<std::string> ReadTokenizerJson(OpenDepth depth, const fs::path& directory) {
  const fs::path path = directory / "tokenizer.json";
  if (!Exists(path)) {
    const bool sentence_piece = Exists(directory / "tokenizer.model");
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("`{}` has no tokenizer.json{}.", directory.string(),
                    sentence_piece
                        ? ", only a tokenizer.model; save it with transformers' fast tokenizer"
                        : ", which is needed"));
  }
  if (depth == OpenDepth::kHeaders) {
    return std::string();
  }
  Result<std::optional<std::string>> text = ReadTextFile(path);
  if (!text) {
    return Fail(text.error());
  }
  return std::move(*text).value_or("");
}

// A special token is written as a text or as an object with "content".
std::string TokenText(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) {
    return {};
  }
  if (found->is_string()) {
    return found->get<std::string>();
  }
  if (found->is_object()) {
    const auto content = found->find("content");
    if (content != found->end() && content->is_string()) {
      return content->get<std::string>();
    }
  }
  return {};
}

void AddSpecialTokens(const Json& config, TokenizerFiles& files) {
  const auto fill = [&](std::string& field, const char* key) {
    if (field.empty()) {
      field = TokenText(config, key);
    }
  };
  fill(files.bos_token, "bos_token");
  fill(files.eos_token, "eos_token");
  fill(files.unk_token, "unk_token");
  fill(files.pad_token, "pad_token");
}

void AddTemplate(std::string name, std::string text, TokenizerFiles& files) {
  if (name == kDefaultName) {
    files.chat_template = std::move(text);
  } else {
    files.named_templates.insert_or_assign(std::move(name), std::move(text));
  }
}

// "chat_template" of tokenizer_config.json or chat_template.json.
void AddTemplates(const Json& config, TokenizerFiles& files) {
  const auto found = config.find("chat_template");
  if (found == config.end()) {
    return;
  }
  if (found->is_string()) {
    files.chat_template = found->get<std::string>();
  }
  if (!found->is_array()) {
    return;
  }
  for (const Json& entry : *found) {
    const bool complete = entry.is_object() && entry.contains("name") &&
                          entry["name"].is_string() && entry.contains("template") &&
                          entry["template"].is_string();
    if (complete) {
      AddTemplate(entry["name"].get<std::string>(), entry["template"].get<std::string>(), files);
    }
  }
}

// Templates in files of their own, which win over those inside tokenizer_config.json.
Result<void> AddTemplateFiles(const fs::path& directory, TokenizerFiles& files) {
  const Result<std::optional<Json>> json = ReadJsonObject(directory / "chat_template.json");
  if (!json) {
    return Fail(json.error());
  }
  if (*json) {
    AddTemplates(**json, files);
  }
  Result<std::optional<std::string>> jinja = ReadTextFile(directory / "chat_template.jinja");
  if (!jinja) {
    return Fail(jinja.error());
  }
  if (*jinja) {
    files.chat_template = std::move(**jinja);
  }
  std::error_code error;
  const fs::path further = directory / "additional_chat_templates";
  for (fs::directory_iterator entry(further, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() != ".jinja") {
      continue;
    }
    Result<std::optional<std::string>> text = ReadTextFile(entry->path());
    if (!text) {
      return Fail(text.error());
    }
    if (*text) {
      AddTemplate(entry->path().stem().string(), std::move(**text), files);
    }
  }
  return {};
}

}  // namespace

Result<TokenizerFiles> ReadTokenizerFiles(OpenDepth depth, const fs::path& directory) {
  Result<std::string> tokenizer_json = ReadTokenizerJson(depth, directory);
  if (!tokenizer_json) {
    return Fail(tokenizer_json.error());
  }
  TokenizerFiles files;
  files.tokenizer_json = std::move(*tokenizer_json);
  const Result<std::optional<Json>> config = ReadJsonObject(directory / "tokenizer_config.json");
  if (!config) {
    return Fail(config.error());
  }
  if (*config) {
    AddSpecialTokens(**config, files);
    AddTemplates(**config, files);
  }
  const Result<std::optional<Json>> map = ReadJsonObject(directory / "special_tokens_map.json");
  if (!map) {
    return Fail(map.error());
  }
  if (*map) {
    AddSpecialTokens(**map, files);
  }
  if (Result<void> added = AddTemplateFiles(directory, files); !added) {
    return Fail(added.error());
  }
  return files;
}

std::vector<std::int64_t> FindEndTokens(const TokenizerFiles& files) {
  const std::vector<std::string_view> texts = EndOfTurnTexts(files.chat_template);
  std::vector<std::int64_t> ids;
  for (const AddedToken& token : ReadAddedTokens(files.tokenizer_json)) {
    const bool is_eos = !token.text.empty() && token.text == files.eos_token;
    if (is_eos || std::ranges::find(texts, token.text) != texts.end()) {
      AddEndToken(ids, token.id);
    }
  }
  return ids;
}

}  // namespace model_files
