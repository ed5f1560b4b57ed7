#pragma once

#include "app/options.h"

namespace app {

// `emberbank chat`: talks with a server, or with a model that it serves itself for that. Ctrl-C
// stops a reply; at the prompt, twice ends. Returns the exit status; errors are one sentence on
// stderr and status 1.
[[nodiscard]] int RunChatCommand(const ChatOptions& options);

}  // namespace app
