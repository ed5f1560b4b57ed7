#include "app/script_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "base/json.h"

namespace app {
namespace {

Result<std::string> BytesOfHex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned value = 0;
    const char* begin = hex.data() + i;
    const auto [end, error] =
        std::from_chars(begin, begin + std::min<std::size_t>(2, hex.size() - i), value, 16);
    if (error != std::errc{} || end != begin + 2) {
      return Fail(ErrorCode::kInvalidRequest, fmt::format("\"{}\" is not hexadecimal.", hex));
    }
    bytes += static_cast<char>(value);
  }
  return bytes;
}

Result<ScriptFile> ParseScript(const std::string& text) {
  const Result<Json> json = ParseJson(text);
  if (!json) {
    return Fail(json.error());
  }
  if (!json->is_object()) {
    return Fail(ErrorCode::kInvalidRequest, "it must be a JSON object.");
  }
  Result<std::vector<std::string>> chunks = ReadChunks(*json);
  if (!chunks) {
    return Fail(chunks.error());
  }
  ScriptFile file;
  file.chunks = std::move(*chunks);
  const Json finish = json->value("finish", Json("stop"));
  const Json delay = json->value("prefill_delay_s", Json(0.0));
  if (finish != "stop" && finish != "length" && finish != "engine_error") {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`finish` must be \"stop\", \"length\" or \"engine_error\", got {}.",
                            DumpJson(finish)));
  }
  if (!delay.is_number() || delay.get<double>() < 0) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`prefill_delay_s` must be a number >= 0, got {}.", DumpJson(delay)));
  }
  file.ends_by_length = finish == "length";
  file.fails_at_end = finish == "engine_error";
  file.prefill_delay_s = delay.get<double>();
  if (const Json tail = json->value("prompt_tail", Json()); tail.is_string()) {
    file.prompt_tail = tail.get<std::string>();
  }
  return file;
}

}  // namespace

Result<std::vector<std::string>> ReadChunks(const Json& json) {
  const bool hex = json.contains("chunks_hex");
  const auto list = json.find(hex ? "chunks_hex" : "chunks");
  if (list == json.end() || !list->is_array()) {
    return Fail(ErrorCode::kInvalidRequest, "`chunks` or `chunks_hex` must be a list of strings.");
  }
  std::vector<std::string> chunks;
  for (const Json& chunk : *list) {
    if (!chunk.is_string()) {
      return Fail(ErrorCode::kInvalidRequest, "`chunks` must be a list of strings.");
    }
    const auto& text = chunk.get_ref<const std::string&>();
    Result<std::string> bytes = hex ? BytesOfHex(text) : Result<std::string>(text);
    if (!bytes) {
      return Fail(bytes.error());
    }
    chunks.push_back(std::move(*bytes));
  }
  return chunks;
}

Result<ScriptFile> ReadScript(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  if (!input) {
    return Fail(ErrorCode::kIo, fmt::format("The script {} cannot be read.", path));
  }
  const std::string text{std::istreambuf_iterator<char>(input), std::istreambuf_iterator<char>()};
  Result<ScriptFile> file = ParseScript(text);
  if (!file) {
    return Fail(file.error().code,
                fmt::format("The script {} cannot be used: {}", path, file.error().message));
  }
  return file;
}

}  // namespace app
