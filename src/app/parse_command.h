#pragma once

#include "app/options.h"

namespace app {

// `emberbank parse`: reads JSON objects from stdin, one a line, each a model's output: `raw` or
// `chunks` or `chunks_hex`, `tools`, `prompt_tail`, `format`, `finish` ("stop" or "length"). Prints
// for each the message that a client would get, one object a line. So a wire format can be tried
// without a model. Returns the exit code: 1 when a line cannot be read.
[[nodiscard]] int RunParseCommand(const ParseOptions& options);

}  // namespace app
