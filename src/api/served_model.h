#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/active_requests.h"
#include "api/forced_replies.h"
#include "api/normalize.h"
#include "api/request_log.h"
#include "chat/grammar.h"
#include "chat/template.h"
#include "chat/tokenizer.h"
#include "parsers/parser.h"
#include "scheduler/scheduler.h"

namespace api {

// Sampling where the request says nothing.
struct SamplingDefaults {
  double temperature = 1.0;
  double top_p = 1.0;
  int top_k = 0;
  double min_p = 0.0;
  double repetition_penalty = 1.0;
};

// One model ready to answer; made by app/, used by all handlers. Thread-safe through its parts.
struct ServedModel {
  std::string name;  // id in /v1/models
  std::vector<std::string>
      aliases;               // other names accepted (the path given to serve, its last component)
  std::int64_t created = 0;  // Unix seconds
  std::int64_t context_length = 0;  // really loaded
  int default_max_tokens = 0;       // --max-tokens; 0: what the context leaves
  std::chrono::seconds timeout{0};  // whole generation; 0: none
  SamplingDefaults sampling;
  std::vector<TokenId> eos_ids;
  std::shared_ptr<const chat::Tokenizer> tokenizer;         // shared with the template and grammars
  std::shared_ptr<const chat::ChatTemplate> chat_template;  // never null
  std::unique_ptr<chat::GrammarFactory> grammars;
  const parsers::ParserFormat* parser_format = nullptr;  // never null
  int scripted_tokens = 0;           // of a script, which max_tokens does not cut: how many it has
  std::string scripted_prompt_tail;  // of a script: what the parser takes for the prompt's end
  std::unique_ptr<ForcedReplies> forced_replies;  // null but with --force-replies
  std::vector<TokenId> parser_markers;            // special tokens that it has to see
  std::unique_ptr<scheduler::Scheduler> scheduler;
  int bank_block_tokens = 0;  // prompts are banked in blocks of so many tokens; 0: not at all
  Normalizer normalizer;
  RequestLog requests;
  ActiveRequests active;
  bool adds_bos = false;  // for /v1/completions: the tokenizer's own rule
};

// Every served model; made at start, unchanged while requests run.
class ModelManager {
 public:
  ModelManager() = default;
  ModelManager(const ModelManager&) = delete;
  ModelManager& operator=(const ModelManager&) = delete;
  virtual ~ModelManager() = default;

  // By name or alias. Error: kModelNotFound naming the model asked for and those there are.
  [[nodiscard]] virtual Result<ServedModel*> Find(const std::string& name) = 0;
  [[nodiscard]] virtual std::vector<ServedModel*> Models() = 0;
};

}  // namespace api
