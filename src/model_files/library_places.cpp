#include "model_files/library_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "model_files/gguf_file.h"
#include "model_files/ollama_manifests.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

// publisher/model/quantisation/file at most; deeper trees hold something else.
constexpr int kMaxDepth = 5;
constexpr std::string_view kGgufEnding = ".gguf";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool Exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Paths in a folder, in name order; an error leaves them empty.
struct Listing {
  std::vector<fs::path> paths;
  std::error_code error;
};
Listing List(const fs::path& folder) {
  Listing listing;
  for (fs::directory_iterator entry(folder, listing.error);
       !listing.error && entry != fs::directory_iterator(); entry.increment(listing.error)) {
    if (!entry->path().filename().string().starts_with(".")) {
      listing.paths.push_back(entry->path());
    }
  }
  std::ranges::sort(listing.paths);
  return listing;
}

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// A .gguf file, unless it is a later part of a split one.
bool IsGguf(const fs::path& path) {
  const std::optional<SplitName> split = ParseSplitName(path.filename().string(), kGgufEnding);
  return path.extension() == kGgufEnding && (!split || split->part == 1);
}

std::string JoinName(const std::string& folder_name, const std::string& name) {
  return folder_name.empty() ? name : fmt::format("{}/{}", folder_name, name);
}

// Walks a tree of folders and collects the models in it.
class FolderWalk {
 public:
  explicit FolderWalk(std::string place) : place_(std::move(place)) {}

  // `name`: of the folder itself, "" for a place's root.
  void Visit(const fs::path& folder, const std::string& name, int depth) {
    std::error_code error;
    const fs::path real = fs::canonical(folder, error);
    if (error || !seen_.insert(real).second || depth > kMaxDepth) {
      return;
    }
    const Listing listing = List(folder);
    if (listing.error) {
      Add(name.empty() ? folder.filename().string() : name, folder,
          fmt::format("The folder cannot be read: {}.", listing.error.message()));
      return;
    }
    const auto has = [&](auto matches) { return std::ranges::any_of(listing.paths, matches); };
    const bool any_gguf = has(IsGguf);
    const bool any_safetensors =
        has([](const fs::path& path) { return path.extension() == ".safetensors"; });
    const bool configured =
        has([](const fs::path& path) { return path.filename() == "config.json"; });
    if (any_safetensors || (configured && !any_gguf)) {
      Add(name.empty() ? folder.filename().string() : name, folder, "");
    }
    for (const fs::path& path : listing.paths) {
      VisitChild(path, name, depth, any_safetensors);
    }
  }

  [[nodiscard]] std::vector<Entry> Take() { return std::move(entries_); }

 private:
  void VisitChild(const fs::path& path, const std::string& folder_name, int depth,
                  bool inside_model) {
    if (IsFolder(path)) {
      if (!inside_model) {  // a model's subfolders (1_Pooling, onnx) are parts of it
        Visit(path, JoinName(folder_name, path.filename().string()), depth + 1);
      }
    } else if (IsGguf(path)) {
      const bool there = Exists(path);
      Add(JoinName(folder_name, path.stem().string()), path,
          there ? "" : "The file is a link to something that is not there.");
    }
  }

  void Add(std::string name, const fs::path& path, std::string broken) {
    entries_.push_back(
        {.name = std::move(name), .path = path, .place = place_, .broken = std::move(broken)});
  }

  std::string place_;
  std::set<fs::path> seen_;
  std::vector<Entry> entries_;
};

// The snapshot to serve: what refs/main names, else the newest.
std::optional<fs::path> FindSnapshot(const fs::path& repository) {
  const fs::path snapshots = repository / "snapshots";
  const Listing refs = List(repository / "refs");
  for (const fs::path& ref : refs.paths) {
    const std::optional<std::string> commit =
        ref.filename() == "main" ? ReadFirstWord(ref) : std::nullopt;
    // A name only: it must not lead out of the cache.
    if (commit && commit->find('/') == std::string::npos && *commit != ".." &&
        IsFolder(snapshots / *commit)) {
      return snapshots / *commit;
    }
  }
  std::optional<fs::path> newest;
  fs::file_time_type newest_time;
  for (const fs::path& snapshot : List(snapshots).paths) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(snapshot, error);
    if (!error && IsFolder(snapshot) && (!newest || time > newest_time)) {
      newest = snapshot;
      newest_time = time;
    }
  }
  return newest;
}

std::vector<Entry> ListHub(const Place& place) {
  constexpr std::string_view kPrefix = "models--";
  std::vector<Entry> entries;
  for (const fs::path& repository : List(place.folder).paths) {
    const std::string folder = repository.filename().string();
    if (!folder.starts_with(kPrefix)) {
      continue;
    }
    const std::string rest = folder.substr(kPrefix.size());
    const std::size_t at = rest.find("--");
    const std::string name = at == std::string::npos
                                 ? rest
                                 : fmt::format("{}/{}", rest.substr(0, at), rest.substr(at + 2));
    const std::optional<fs::path> snapshot = FindSnapshot(repository);
    std::vector<Entry> found;
    if (snapshot) {
      FolderWalk walk(place.name);
      walk.Visit(*snapshot, name, 0);
      found = walk.Take();
    }
    if (found.empty()) {
      found.push_back({.name = name,
                       .path = snapshot.value_or(repository),
                       .place = place.name,
                       .broken = snapshot
                                     ? "The snapshot holds neither a config.json nor a .gguf file."
                                     : "The download has no snapshot; it is incomplete."});
    }
    std::ranges::move(found, std::back_inserter(entries));
  }
  return entries;
}

void AddHubPlace(const std::string& home, std::vector<Place>& places) {
  const auto add = [&](const fs::path& folder) {
    places.push_back({.name = "Hugging Face", .folder = folder, .layout = PlaceLayout::kHub});
  };
  if (const std::string cache = Environment("HF_HUB_CACHE"); !cache.empty()) {
    add(cache);
  } else if (const std::string hf_home = Environment("HF_HOME"); !hf_home.empty()) {
    add(fs::path(hf_home) / "hub");
  } else if (const std::string xdg = Environment("XDG_CACHE_HOME"); !xdg.empty()) {
    add(fs::path(xdg) / "huggingface" / "hub");
  } else if (!home.empty()) {
    add(fs::path(home) / ".cache" / "huggingface" / "hub");
  }
}

void AddOllamaPlace(const std::string& home, std::vector<Place>& places) {
  const auto add = [&](const fs::path& folder) {
    places.push_back({.name = "Ollama", .folder = folder, .layout = PlaceLayout::kOllama});
  };
  if (const std::string models = Environment("OLLAMA_MODELS"); !models.empty()) {
    add(models);
  } else if (!home.empty()) {
    add(fs::path(home) / ".ollama" / "models");
  }
}

}  // namespace

std::vector<Place> ListPlaces() {
  std::vector<Place> places;
  const std::string own = Environment("EMBERBANK_MODELS");
  for (std::size_t begin = 0; begin < own.size();) {
    const std::size_t end = std::min(own.find(':', begin), own.size());
    if (end > begin) {
      places.push_back({.name = "EMBERBANK_MODELS", .folder = own.substr(begin, end - begin)});
    }
    begin = end + 1;
  }
  const std::string home = Environment("HOME");
  if (!home.empty()) {
    for (const char* folder : {".lmstudio/models", ".cache/lm-studio/models"}) {
      places.push_back({.name = "LM Studio", .folder = fs::path(home) / folder});
    }
  }
  AddHubPlace(home, places);
  AddOllamaPlace(home, places);
  return places;
}

std::vector<Entry> ListEntries(const Place& place) {
  if (!Exists(place.folder)) {
    return {};
  }
  std::vector<Entry> entries;
  switch (place.layout) {
    case PlaceLayout::kFolders: {
      FolderWalk walk(place.name);
      walk.Visit(place.folder, "", 0);
      entries = walk.Take();
      break;
    }
    case PlaceLayout::kHub:
      entries = ListHub(place);
      break;
    case PlaceLayout::kOllama:
      entries = ListOllama(place);
      break;
  }
  std::ranges::sort(entries, {}, [](const Entry& entry) { return entry.name; });
  return entries;
}

}  // namespace model_files
