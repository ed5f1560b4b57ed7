#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace app {

// The keys of `--api-key-file`: one a line; white space around them, empty lines and lines that
// begin with # do not count. Errors: kIo, kInvalidRequest for a file without a key, which would
// leave the server open to everybody.
[[nodiscard]] Result<std::vector<std::string>> ReadKeyFile(const std::string& path);

}  // namespace app
