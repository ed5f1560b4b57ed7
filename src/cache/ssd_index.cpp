#include "cache/ssd_index.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

namespace cache {
namespace {

constexpr std::chrono::hours kReuseWorth{1};
constexpr int kMaxReuses = 8;

}  // namespace

bool SsdIndex::Put(const std::string& folder, const DirectoryEntry& entry) {
  const bool is_damaged = folder == kDamagedFolder;
  std::optional<KvFileName> parsed = is_damaged ? std::nullopt : ParseKvFileName(entry.name);
  if (entry.is_directory || (!parsed && !is_damaged)) {
    return false;
  }
  const auto [place, is_new] = by_name_.try_emplace({folder, entry.name}, next_id_);
  File& file = files_[place->second];
  const bool is_own = folder == own_folder_;
  used_bytes_ += entry.size - file.bytes;
  own_bytes_ += is_own ? entry.size - file.bytes : 0;
  file.bytes = entry.size;
  file.last_use = std::max(file.last_use, entry.modified);
  if (!is_new) {
    return true;
  }
  ++next_id_;
  file.folder = folder;
  file.name = entry.name;
  for (std::size_t i = 0; is_own && i < parsed->blocks.size(); ++i) {
    places_[parsed->blocks[i].tag].push_back({.file = place->second, .block = i});
  }
  file.parsed = std::move(parsed);
  return true;
}

void SsdIndex::Erase(const std::string& folder, const std::string& name) {
  if (const auto found = by_name_.find(std::pair(folder, name)); found != by_name_.end()) {
    EraseId(found->second);
  }
}

void SsdIndex::EraseId(FileId id) {
  const auto found = files_.find(id);
  const File& file = found->second;
  used_bytes_ -= file.bytes;
  if (file.folder == own_folder_) {
    own_bytes_ -= file.bytes;
    for (const KvFileName::Block& block : file.parsed->blocks) {
      const auto places = places_.find(block.tag);
      std::erase_if(places->second, [id](const Place& place) { return place.file == id; });
      if (places->second.empty()) {
        places_.erase(places);
      }
    }
  }
  by_name_.erase(std::pair(file.folder, file.name));
  files_.erase(found);
}

void SsdIndex::KeepOnly(const std::string& folder, const std::vector<DirectoryEntry>& present) {
  std::set<std::string_view> names;
  for (const DirectoryEntry& entry : present) {
    names.insert(entry.name);
  }
  std::vector<FileId> gone;
  for (auto it = by_name_.lower_bound(std::pair(folder, std::string()));
       it != by_name_.end() && it->first.first == folder; ++it) {
    if (!names.contains(it->first.second)) {
      gone.push_back(it->second);
    }
  }
  for (const FileId id : gone) {
    EraseId(id);
  }
}

GroupMask SsdIndex::GroupsOf(BlockTag tag) const {
  const auto found = places_.find(tag);
  GroupMask groups = 0;
  if (found != places_.end()) {
    for (const Place& place : found->second) {
      groups |= files_.at(place.file).parsed->blocks[place.block].groups;
    }
  }
  return groups;
}

std::optional<SsdIndex::Place> SsdIndex::Find(BlockTag tag, std::size_t group) const {
  const auto found = places_.find(tag);
  if (found == places_.end()) {
    return std::nullopt;
  }
  for (const Place& place : found->second) {
    if ((files_.at(place.file).parsed->blocks[place.block].groups >> group & 1U) != 0) {
      return place;
    }
  }
  return std::nullopt;
}

const SsdIndex::File* SsdIndex::FileOf(FileId id) const {
  const auto found = files_.find(id);
  return found == files_.end() ? nullptr : &found->second;
}

void SsdIndex::NoteUse(FileId id, Time now) {
  if (const auto found = files_.find(id); found != files_.end()) {
    found->second.last_use = std::max(found->second.last_use, now);
    ++found->second.uses;
  }
}

std::vector<SsdIndex::FileId> SsdIndex::ToEvict(std::uint64_t bytes,
                                                std::uint64_t budget_bytes) const {
  std::vector<FileId> victims;
  std::uint64_t left = used_bytes_;
  if (left + bytes <= budget_bytes) {
    return victims;
  }
  // Segments that continue a block, by namespace and tag; a segment may go when none continues it.
  using TagInFolder = std::pair<std::string_view, BlockTag>;
  std::map<TagInFolder, std::vector<FileId>> holders;
  std::map<TagInFolder, int> continuations;
  for (const auto& [id, file] : files_) {
    if (file.parsed) {
      ++continuations[{file.folder, file.parsed->parent}];
      for (const KvFileName::Block& block : file.parsed->blocks) {
        holders[{file.folder, block.tag}].push_back(id);
      }
    }
  }
  std::map<FileId, int> children;
  for (const auto& [parent, count] : continuations) {
    if (const auto found = holders.find(parent); found != holders.end()) {
      for (const FileId id : found->second) {
        children[id] += count;
      }
    }
  }
  using Ranked = std::tuple<bool, Time, std::int64_t, FileId>;  // least first
  std::priority_queue<Ranked, std::vector<Ranked>, std::greater<>> queue;
  const auto add = [&](FileId id) {
    const File& file = files_.at(id);
    const Time score = file.last_use + kReuseWorth * std::min(file.uses, kMaxReuses);
    const std::int64_t depth = file.parsed ? file.parsed->first_block : 0;
    queue.emplace(file.parsed.has_value(), score, -depth, id);
  };
  for (const auto& [id, file] : files_) {
    if (children[id] == 0) {
      add(id);
    }
  }
  // A tag that two blocks share may let segments continue each other in a circle: then they all
  // come.
  const auto add_circles = [&] {
    for (const auto& [id, file] : files_) {
      if (std::ranges::find(victims, id) == victims.end()) {
        add(id);
      }
    }
  };
  while (left + bytes > budget_bytes && victims.size() < files_.size()) {
    if (queue.empty()) {
      add_circles();
    }
    const FileId id = std::get<FileId>(queue.top());
    queue.pop();
    if (std::ranges::find(victims, id) != victims.end()) {
      continue;
    }
    victims.push_back(id);
    const File& file = files_.at(id);
    left -= file.bytes;
    if (!file.parsed) {
      continue;
    }
    if (const auto found = holders.find({file.folder, file.parsed->parent});
        found != holders.end()) {
      for (const FileId parent : found->second) {
        if (--children[parent] == 0) {
          add(parent);
        }
      }
    }
  }
  return victims;
}

}  // namespace cache
