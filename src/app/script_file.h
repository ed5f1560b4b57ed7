#pragma once

#include <string>

#include "base/result.h"
#include "chat/tokenizer.h"
#include "engine/engine.h"

namespace app {

// A script that plays instead of a model (`serve --script FILE`): a JSON object with
//   "chunks": ["text", ...]    or    "chunks_hex": ["68690a", ...]   the reply's bytes
//   "finish": "stop" (default), "length" or "engine_error"           how it ends
//   "prefill_delay_s": 0.5                                           wait before the first token
struct ScriptFile {
  engine::Script script;  // tokens, delay and failure; not the vocabulary's size
  bool ends_by_length = false;
};

// Reads it. Text of special tokens becomes these tokens; all other text the tokens that stand for
// exactly its bytes. Errors (kIo, kInvalidRequest) name the file.
[[nodiscard]] Result<ScriptFile> ReadScript(const std::string& path,
                                            const chat::Tokenizer& tokenizer, TokenId eos);

// Tokens whose bytes, joined, are `bytes`, characters or not.
[[nodiscard]] Result<std::vector<TokenId>> TokensOfBytes(const std::string& bytes,
                                                         const chat::Tokenizer& tokenizer);

}  // namespace app
