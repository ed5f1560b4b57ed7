#include "model_files/ollama_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "model_files/read_text_file.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kModelLayer = "application/vnd.ollama.image.model";

// "sha256:<64 hex digits>" -> "sha256-<64 hex digits>", the blob's file name. Anything else could
// name a path out of the folder.
std::optional<std::string> BlobName(std::string_view digest) {
  constexpr std::string_view kPrefix = "sha256:";
  constexpr std::size_t kHexDigits = 64;
  if (!digest.starts_with(kPrefix) || digest.size() != kPrefix.size() + kHexDigits) {
    return std::nullopt;
  }
  const std::string_view hex = digest.substr(kPrefix.size());
  const bool valid = hex.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return valid ? std::optional(fmt::format("sha256-{}", hex)) : std::nullopt;
}

std::optional<std::string> FindModelBlob(const Json& manifest) {
  const auto layers = manifest.find("layers");
  if (layers == manifest.end() || !layers->is_array()) {
    return std::nullopt;
  }
  for (const Json& layer : *layers) {
    const bool complete = layer.is_object() && layer.contains("mediaType") &&
                          layer["mediaType"].is_string() && layer.contains("digest") &&
                          layer["digest"].is_string();
    if (complete && layer["mediaType"].get<std::string>() == kModelLayer) {
      return BlobName(layer["digest"].get<std::string>());
    }
  }
  return std::nullopt;
}

// `parts`: host, namespace, name, tag.
std::string NameOf(const std::vector<std::string>& parts) {
  std::string name = fmt::format("{}:{}", parts[2], parts[3]);
  const bool official = parts[0] == "registry.ollama.ai";
  if (!official || parts[1] != "library") {
    name = fmt::format("{}/{}", parts[1], name);
  }
  return official ? name : fmt::format("{}/{}", parts[0], name);
}

Entry ReadManifest(const fs::path& path, std::string name, const Place& place) {
  Entry entry{.name = std::move(name), .path = path, .place = place.name, .broken = ""};
  const Result<std::optional<Json>> manifest = ReadJsonObject(path);
  if (!manifest) {
    entry.broken = manifest.error().message;
    return entry;
  }
  const std::optional<std::string> blob = *manifest ? FindModelBlob(**manifest) : std::nullopt;
  if (!blob) {
    entry.broken = "The manifest names no model file.";
    return entry;
  }
  entry.path = place.folder / "blobs" / *blob;
  std::error_code ignored;
  if (!fs::exists(entry.path, ignored)) {
    entry.broken = "The model file that the manifest names is missing; the download is incomplete.";
  }
  return entry;
}

}  // namespace

std::vector<Entry> ListOllama(const Place& place) {
  constexpr int kTagDepth = 3;  // host/namespace/name/tag
  std::vector<Entry> entries;
  const fs::path manifests = place.folder / "manifests";
  std::error_code error;
  fs::recursive_directory_iterator file(manifests, fs::directory_options::skip_permission_denied,
                                        error);
  for (; !error && file != fs::recursive_directory_iterator(); file.increment(error)) {
    std::error_code ignored;
    if (file.depth() > kTagDepth) {
      file.disable_recursion_pending();
    }
    if (file.depth() != kTagDepth || !file->is_regular_file(ignored)) {
      continue;
    }
    std::vector<std::string> parts;
    for (const fs::path& part : file->path().lexically_relative(manifests)) {
      parts.push_back(part.string());
    }
    if (!parts.back().starts_with(".")) {
      entries.push_back(ReadManifest(file->path(), NameOf(parts), place));
    }
  }
  return entries;
}

std::optional<std::string> ReadFirstWord(const fs::path& path) {
  constexpr std::string_view kSpace = " \t\r\n";
  const Result<std::optional<std::string>> text = ReadTextFile(path);
  if (!text || !*text) {
    return std::nullopt;
  }
  const std::size_t begin = (*text)->find_first_not_of(kSpace);
  if (begin == std::string::npos) {
    return std::nullopt;
  }
  const std::size_t end = (*text)->find_first_of(kSpace, begin);
  return (*text)->substr(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace model_files
