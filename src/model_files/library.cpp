#include "model_files/library.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>
#include <utility>

#include "model_files/library_places.h"
#include "model_files/opening.h"
#include "model_files/servable.h"

namespace model_files {
namespace {

namespace fs = std::filesystem;

// Entries of all places, each path once.
std::vector<Entry> ListAll(const std::vector<Place>& places) {
  std::vector<Entry> all;
  std::set<fs::path> seen;
  for (const Place& place : places) {
    for (Entry& entry : ListEntries(place)) {
      std::error_code error;
      const fs::path real = fs::canonical(entry.path, error);
      if (error || entry.path.empty() || seen.insert(real).second) {
        all.push_back(std::move(entry));
      }
    }
  }
  return all;
}

std::string_view NameFormat(ModelFormat format) {
  switch (format) {
    case ModelFormat::kGguf:
      return "GGUF";
    case ModelFormat::kMlx:
      return "MLX";
    case ModelFormat::kHuggingFace:
      break;
  }
  return "Hugging Face";
}

// Bytes on disk of what cannot be opened: the file, or the files right inside the folder.
std::uint64_t SizeOnDisk(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    const std::uintmax_t size = fs::file_size(path, error);
    return error ? 0 : size;
  }
  std::uint64_t total = 0;
  for (fs::directory_iterator entry(path, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    const std::uintmax_t size = entry->file_size(ignored);
    total += ignored ? 0 : size;
  }
  return total;
}

FoundModel Inspect(Entry entry, const std::vector<std::string_view>& known_types) {
  FoundModel found;
  found.name = std::move(entry.name);
  found.path = entry.path;
  found.place = std::move(entry.place);
  if (!entry.broken.empty()) {
    found.why_not = std::move(entry.broken);
    found.size_bytes = SizeOnDisk(found.path);
    return found;
  }
  const Result<ModelSource> source = OpenModelTo(OpenDepth::kHeaders, entry.path);
  if (!source) {
    std::error_code ignored;
    found.format = fs::is_directory(entry.path, ignored) ? "Hugging Face" : "GGUF";
    found.why_not = source.error().message;
    found.size_bytes = SizeOnDisk(found.path);
    return found;
  }
  found.format = NameFormat(source->format);
  found.architecture = source->model_type;
  found.quantization = source->quantization;
  found.size_bytes = source->weight_bytes;
  found.why_not = WhyNotServable(*source, known_types);
  found.servable = found.why_not.empty();
  return found;
}

std::string_view LastComponent(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? name : name.substr(slash + 1);
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Levenshtein distance.
std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> NearestNames(const std::string& name, const std::vector<Entry>& entries) {
  constexpr std::size_t kShown = 3;
  constexpr std::size_t kCompared = 200;  // bytes; the distance takes quadratic time
  const std::string wanted = Lower(name.substr(0, kCompared));
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const Entry& entry : entries) {
    const std::string candidate = Lower(entry.name.substr(0, kCompared));
    const std::size_t distance = candidate.find(wanted) != std::string::npos
                                     ? 0
                                     : std::min(EditDistance(wanted, candidate),
                                                EditDistance(wanted, LastComponent(candidate)));
    if (distance <= wanted.size() / 2) {
      ranked.emplace_back(distance, entry.name);
    }
  }
  std::ranges::sort(ranked);
  std::vector<std::string> names;
  for (const auto& [distance, nearest] : ranked) {
    if (names.size() < kShown) {
      names.push_back(nearest);
    }
  }
  return names;
}

tl::unexpected<Error> NotFound(const std::string& name, const std::vector<Place>& places,
                               const std::vector<Entry>& entries) {
  std::vector<std::string> folders;
  for (const Place& place : places) {
    folders.push_back(place.folder.string());
  }
  const std::vector<std::string> nearest = NearestNames(name, entries);
  return Fail(
      ErrorCode::kModelNotFound,
      fmt::format("There is no model `{}`: it is no file or directory, and none of that name "
                  "is in {}.{}",
                  name, fmt::join(folders, ", "),
                  nearest.empty()
                      ? std::string()
                      : fmt::format(" The nearest names are {}.", fmt::join(nearest, ", "))));
}

std::vector<const Entry*> EntriesNamed(const std::vector<Entry>& entries, auto matches) {
  std::vector<const Entry*> named;
  for (const Entry& entry : entries) {
    if (matches(entry.name)) {
      named.push_back(&entry);
    }
  }
  return named;
}

// Of several models with the same last component: the only one that can be served, if so.
std::vector<const Entry*> KeepServable(const std::vector<const Entry*>& entries,
                                       const std::vector<std::string_view>& known_types) {
  std::vector<const Entry*> kept;
  std::ranges::copy_if(entries, std::back_inserter(kept),
                       [&](const Entry* entry) { return Inspect(*entry, known_types).servable; });
  return kept.size() == 1 ? kept : entries;
}

}  // namespace

std::vector<FoundModel> FindModels(const std::vector<std::string_view>& known_types) {
  std::vector<FoundModel> found;
  for (Entry& entry : ListAll(ListPlaces())) {
    found.push_back(Inspect(std::move(entry), known_types));
  }
  return found;
}

Result<fs::path> ResolveModel(const std::string& name,
                              const std::vector<std::string_view>& known_types) {
  std::error_code ignored;
  if (!name.empty() && fs::exists(name, ignored)) {
    return fs::path(name);
  }
  const std::vector<Place> places = ListPlaces();
  const std::vector<Entry> entries = ListAll(places);
  // Ollama's tag may be left out when it is "latest".
  const std::string tagged = name + ":latest";
  const std::vector<const Entry*> equal = EntriesNamed(
      entries, [&](const std::string& each) { return each == name || each == tagged; });
  if (!equal.empty()) {
    return equal.front()->path;
  }
  std::vector<const Entry*> ending = EntriesNamed(entries, [&](std::string_view each) {
    return LastComponent(each) == name || LastComponent(each) == tagged;
  });
  if (ending.size() > 1) {
    ending = KeepServable(ending, known_types);
  }
  if (ending.empty()) {
    return NotFound(name, places, entries);
  }
  if (ending.size() > 1) {
    std::vector<std::string> names;
    for (const Entry* entry : ending) {
      names.push_back(entry->name);
    }
    return Fail(ErrorCode::kModelNotFound,
                fmt::format("Several models are called `{}`; name one of {} in full.", name,
                            fmt::join(names, ", ")));
  }
  return ending.front()->path;
}

}  // namespace model_files
