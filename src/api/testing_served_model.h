#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/reply.h"
#include "api/served_model.h"
#include "base/clock.h"
#include "test_paths.h"

// For tests of api/ and http/: a whole ServedModel without weights, which plays a script.
namespace api {

inline std::string ReadTestFile(const std::string& path) {
  std::ifstream file(std::string(EMBERBANK_SOURCE_DIR) + "/" + path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

struct PlayOptions {
  // The reply; each piece is encoded on its own, so that token borders lie between them.
  std::vector<std::string> pieces = {"Good", " day", "."};
  double prefill_delay_s = 0;
  bool fails_at_end = false;
  int max_queue = 256;
  int max_num_seqs = 16;
  std::int64_t context_length = 4096;
  // Of another model than the one of tests/fixtures/tokenizers/qwen3; empty: of that.
  std::string chat_template = {};
  std::string bos_token = {};
  std::string end_token = "<|im_end|>";
  std::vector<std::string> special_tokens = {};  // added to the tokenizer's
  std::string format = "plain_text";
};

// A tokenizer.json with more special tokens.
inline std::string WithSpecialTokens(const std::string& tokenizer_json,
                                     const std::vector<std::string>& texts) {
  Json json = Json::parse(tokenizer_json);
  Json& added = json["added_tokens"];
  for (const std::string& text : texts) {
    if (std::ranges::none_of(
            added, [&](const Json& token) { return token.value("content", "") == text; })) {
      Json token = added.back();
      token["id"] = added.back()["id"].get<int>() + 1;
      token["content"] = text;
      token["special"] = true;
      added.push_back(std::move(token));
    }
  }
  return json.dump();
}

class ScriptedModel final : public ModelManager {
 public:
  explicit ScriptedModel(const PlayOptions& options = {}) {
    model_files::TokenizerFiles files;
    files.tokenizer_json = WithSpecialTokens(
        ReadTestFile("tests/fixtures/tokenizers/qwen3/tokenizer.json"), options.special_tokens);
    files.chat_template = options.chat_template.empty()
                              ? ReadTestFile("tests/fixtures/tokenizers/qwen3/chat_template.jinja")
                              : options.chat_template;
    files.bos_token = options.bos_token;
    files.eos_token = options.end_token;
    model.tokenizer = chat::Tokenizer::Load(files).value();
    model.chat_template = chat::ChatTemplate::Load(files, "", model.tokenizer).value();
    model.name = "org/model";
    model.aliases = {"model"};
    model.context_length = options.context_length;
    model.bank_block_tokens = ops::kBlockTokens;
    model.eos_ids = {model.tokenizer->Find(options.end_token)};
    model.parser_format = parsers::FindFormat(options.format);
    for (const std::string_view marker : model.parser_format->markers) {
      if (const TokenId id = model.tokenizer->Find(marker); id >= 0) {
        model.parser_markers.push_back(id);
      }
    }
    const int vocab_size = model.tokenizer->vocab_size();
    model.grammars =
        std::make_unique<chat::GrammarFactory>(model.tokenizer, model.eos_ids, vocab_size);
    engine::Script script{.tokens = Encode(options.pieces),
                          .eos = model.eos_ids.front(),
                          .vocab_size = vocab_size,
                          .prefill_delay_s = options.prefill_delay_s,
                          .fails_at_end = options.fails_at_end};
    auto make = [script](const scheduler::Scheduler::Wake&) -> Result<scheduler::Scheduler::Parts> {
      scheduler::Scheduler::Parts parts;
      parts.engine = engine::MakeScriptedEngine(script);
      parts.cache = cache::MakeRadixCache(parts.engine->blocks());
      return parts;
    };
    model.scheduler = scheduler::Scheduler::Start({.max_num_seqs = options.max_num_seqs,
                                                   .max_queue = options.max_queue,
                                                   .context_length = options.context_length},
                                                  clock_, std::move(make))
                          .value();
  }

  Result<ServedModel*> Find(const std::string& name) override {
    if (name == model.name || std::ranges::find(model.aliases, name) != model.aliases.end()) {
      return &model;
    }
    return Fail(ErrorCode::kModelNotFound, fmt::format("There is no model {}.", name), "model");
  }
  std::vector<ServedModel*> Models() override { return {&model}; }

  std::vector<TokenId> Encode(const std::vector<std::string>& pieces) const {
    std::vector<TokenId> tokens;
    for (const std::string& piece : pieces) {
      const auto ids =
          model.tokenizer->Encode(piece, chat::Tokenizer::SpecialTokens::kParse, false).value();
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    }
    return tokens;
  }

 private:
  SystemClock clock_;

 public:
  ServedModel model;  // last: its scheduler reads the clock
};

// Keeps what a handler answers.
class RecordedReply final : public Reply {
 public:
  void SendJson(int new_status, const Json& new_body) override {
    Answer(new_status);
    // As it goes over the wire.
    body = ParseJson(DumpJson(new_body)).value();
  }
  void SendText(int new_status, std::string_view, std::string_view) override { Answer(new_status); }
  void SendError(const Error& new_error) override {
    Answer(400);
    error = new_error;
  }
  void BeginEvents() override {
    Answer(200);
    begun = true;
  }
  void SendEvent(std::string_view data) override {
    EXPECT_TRUE(begun && !ended);
    if (data == "[DONE]") {
      done = true;
    } else {
      EXPECT_FALSE(done);
      chunks.push_back(ParseJson(data).value());
    }
    if (on_event) {
      on_event();
    }
  }
  void SendNamedEvent(std::string_view, std::string_view data) override { SendEvent(data); }
  void KeepAlive() override { ++keep_alives; }
  void EndEvents() override {
    EXPECT_TRUE(begun && !ended);
    ended = true;
  }
  void ReportUsage(const Usage& new_usage) override { usage = new_usage; }
  bool client_gone() const override { return gone; }

  // The text of one choice, joined over the chunks.
  std::string Text(int index = 0) const {
    std::string text;
    for (const Json& chunk : chunks) {
      for (const Json& choice : chunk.value("choices", Json::array())) {
        if (choice["index"] == index) {
          const Json& holder = choice.contains("delta") ? choice["delta"] : choice;
          text += holder.value(choice.contains("delta") ? "content" : "text", "");
        }
      }
    }
    return text;
  }
  std::vector<std::string> FinishReasons() const {
    std::vector<std::string> reasons;
    for (const Json& chunk : chunks) {
      for (const Json& choice : chunk.value("choices", Json::array())) {
        if (!choice["finish_reason"].is_null()) {
          reasons.push_back(choice["finish_reason"].get<std::string>());
        }
      }
    }
    return reasons;
  }

  int status = 0;
  Json body;
  std::optional<Error> error;
  std::vector<Json> chunks;
  bool begun = false;
  bool ended = false;
  bool done = false;
  int keep_alives = 0;
  std::optional<Usage> usage;
  std::function<void()> on_event;
  std::atomic<bool> gone{false};

 private:
  void Answer(int new_status) {
    EXPECT_EQ(status, 0) << "answered twice";
    status = new_status;
  }
};

using ApiFunction = void (*)(ModelManager&, const ApiRequest&, Reply&);

inline void Call(ApiFunction function, ModelManager& models, std::string body,
                 RecordedReply& reply) {
  ApiRequest request;
  request.method = "POST";
  request.path = "/v1/x";
  request.body = std::move(body);
  function(models, request, reply);
}

}  // namespace api
