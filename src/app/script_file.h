#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace app {

// A script that plays instead of a model (`serve --script FILE`), to its end whatever max_tokens
// says: a JSON object with
//   "chunks": ["text", ...]    or    "chunks_hex": ["68690a", ...]   the reply's bytes
//   "finish": "stop" (default), "length" or "engine_error"           how it ends
//   "prefill_delay_s": 0.5                                           wait before the first token
//   "prompt_tail": "..."           what the parser takes for the end of the prompt
struct ScriptFile {
  std::vector<std::string> chunks;  // each is one token of its own
  bool ends_by_length = false;
  bool fails_at_end = false;
  double prefill_delay_s = 0;
  std::string prompt_tail;  // empty: the prompt's own
};

// The texts of the field `chunks` or `chunks_hex` of an object. Errors (kInvalidRequest): no list
// of strings, no hexadecimal.
[[nodiscard]] Result<std::vector<std::string>> ReadChunks(const Json& json);

// Errors (kIo, kInvalidRequest) name the file.
[[nodiscard]] Result<ScriptFile> ReadScript(const std::string& path);

}  // namespace app
