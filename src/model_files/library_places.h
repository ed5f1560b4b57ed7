#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace model_files {

// How a place arranges its models.
enum class PlaceLayout {
  kFolders,  // any folders: EMBERBANK_MODELS, LM Studio (publisher/model/...)
  kHub,      // Hugging Face hub cache: models--org--name/snapshots/<commit>/
  kOllama,   // manifests/<host>/<namespace>/<name>/<tag> and blobs/sha256-<hex>
};

struct Place {
  std::string name;  // FoundModel::place
  std::filesystem::path folder;
  PlaceLayout layout = PlaceLayout::kFolders;
};

// What lies in a place, before it is opened.
struct Entry {
  std::string name;
  std::filesystem::path path;
  std::string place;
  std::string broken;  // a sentence, when there is nothing to open
};

// The places that the environment names and those where programs put models by themselves, also
// when they do not exist.
[[nodiscard]] std::vector<Place> ListPlaces();

// Entries of one place in name order. Folders that cannot be read are entries with `broken`; a
// folder that a symlink leads back to is entered once.
[[nodiscard]] std::vector<Entry> ListEntries(const Place& place);

}  // namespace model_files
