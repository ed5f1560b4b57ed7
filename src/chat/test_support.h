#pragma once

#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/conversation.h"
#include "chat/tokenizer.h"
#include "model_files/model_source.h"
#include "test_paths.h"

// Shared by the tests of this folder only.
namespace chat::test {

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::string FixturePath(const std::string& name) {
  return std::string(EMBERBANK_SOURCE_DIR) + "/tests/fixtures/" + name;
}

inline Json ReadFixture(const std::string& name) {
  return Json::parse(ReadFile(FixturePath(name)));
}

inline std::string TextOrEmpty(const Json& json, const char* key) {
  return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : "";
}

// tests/fixtures/tokenizers/<name>
inline model_files::TokenizerFiles FixtureFiles(const std::string& name) {
  const std::string folder = "tokenizers/" + name;
  const Json config = ReadFixture(folder + "/tokenizer_config.json");
  model_files::TokenizerFiles files;
  files.tokenizer_json = ReadFile(FixturePath(folder + "/tokenizer.json"));
  files.chat_template = ReadFile(FixturePath(folder + "/chat_template.jinja"));
  files.bos_token = TextOrEmpty(config, "bos_token");
  files.eos_token = TextOrEmpty(config, "eos_token");
  files.unk_token = TextOrEmpty(config, "unk_token");
  files.pad_token = TextOrEmpty(config, "pad_token");
  return files;
}

inline std::shared_ptr<const Tokenizer> FixtureTokenizer(const std::string& name) {
  return Tokenizer::Load(FixtureFiles(name)).value();
}

inline const std::vector<std::string>& FixtureNames() {
  static const std::vector<std::string> names = {"llama", "qwen3", "gemma3"};
  return names;
}

}  // namespace chat::test
