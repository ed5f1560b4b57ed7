#include "app/key_file.h"

#include <fmt/format.h>

#include <optional>
#include <sstream>

#include "model_files/read_text_file.h"

namespace app {

Result<std::vector<std::string>> ReadKeyFile(const std::string& path) {
  const Result<std::optional<std::string>> text = model_files::ReadTextFile(path);
  if (!text) {
    return Fail(text.error());
  }
  if (!*text) {
    return Fail(ErrorCode::kIo, fmt::format("There is no file {} (--api-key-file).", path));
  }
  std::vector<std::string> keys;
  std::istringstream lines(**text);
  for (std::string line; std::getline(lines, line);) {
    constexpr const char* kSpace = " \t\r";
    const std::size_t begin = line.find_first_not_of(kSpace);
    if (begin != std::string::npos && line[begin] != '#') {
      keys.push_back(line.substr(begin, line.find_last_not_of(kSpace) + 1 - begin));
    }
  }
  if (keys.empty()) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The file {} (--api-key-file) has no key.", path));
  }
  return keys;
}

}  // namespace app
