#include "cache/ssd_source.h"

#include <chrono>
#include <map>
#include <utility>

#include "base/log.h"

namespace cache {

// The files that one run has open.
class SsdSource::OpenFiles final : public BlockSource::Session {
 public:
  explicit OpenFiles(SsdSource& source) : source_(source) {}

  std::optional<BlockRead> ReadBlock(const WantedBlock& wanted,
                                     const TakeBuffer& buffers) override;

 private:
  struct File {
    std::string name;
    KvFile file;
  };
  // The file's entry, opened when it is not; null when it cannot be.
  [[nodiscard]] File* Get(SsdIndex::FileId id);

  SsdSource& source_;
  std::map<SsdIndex::FileId, File> files_;
};

std::unique_ptr<BlockSource::Session> SsdSource::Open() {
  return std::make_unique<OpenFiles>(*this);
}

SsdSource::OpenFiles::File* SsdSource::OpenFiles::Get(SsdIndex::FileId id) {
  if (const auto found = files_.find(id); found != files_.end()) {
    return &found->second;
  }
  SsdFolder& folder = source_.folder_;
  std::string name;
  KvFileName parsed;
  folder.With([&](const SsdIndex& index) {
    if (const SsdIndex::File* file = index.FileOf(id)) {
      name = file->name;
      parsed = *file->parsed;
    }
  });
  if (name.empty()) {
    return nullptr;
  }
  const std::filesystem::path path = folder.PathOf(folder.own(), name);
  KvFileResult<KvFile> opened = KvFile::Open(source_.files_, path, source_.spec_, parsed);
  if (!opened) {
    source_.NoteFailure(name, opened.error());
    return nullptr;
  }
  (void)source_.files_.Touch(path);  // its last use, for whoever evicts after a restart
  folder.With([&](SsdIndex& index) { index.NoteUse(id, std::chrono::system_clock::now()); });
  return &files_.emplace(id, File{.name = name, .file = std::move(*opened)}).first->second;
}

std::optional<BlockRead> SsdSource::OpenFiles::ReadBlock(const WantedBlock& wanted,
                                                         const TakeBuffer& buffers) {
  const std::vector<std::uint64_t>& group_bytes = source_.spec_.group_bytes;
  BlockRead block;
  block.groups.resize(group_bytes.size());
  for (std::size_t g = 0; g < group_bytes.size(); ++g) {
    if ((wanted.groups >> g & 1U) == 0) {
      continue;
    }
    const std::optional<SsdIndex::Place> place = source_.folder_.With(
        [&](const SsdIndex& index) { return index.Find(TagOf(wanted.key), g); });
    File* file = place ? Get(place->file) : nullptr;
    if (file == nullptr) {
      return std::nullopt;
    }
    if (file->file.keys()[place->block] != wanted.key ||
        file->file.tokens(place->block) != wanted.tokens) {
      source_.NoteFailure(file->name,
                          {.kind = KvFileError::Kind::kForeign,
                           .message = file->name + " holds another block of the same tag"});
      return std::nullopt;
    }
    block.groups[g] = buffers(group_bytes[g]);
    if (KvFileResult<void> read = file->file.Read(place->block, g, block.groups[g]); !read) {
      source_.NoteFailure(file->name, read.error());
      return std::nullopt;
    }
  }
  return block;
}

void SsdSource::NoteFailure(const std::string& name, const KvFileError& error) {
  if (error.kind == KvFileError::Kind::kDamaged) {
    folder_.SetAside(folder_.own(), name, error.message);
    return;
  }
  // Not found again before the folder is listed anew.
  folder_.With([&](SsdIndex& index) { index.Erase(folder_.own(), name); });
  if (error.kind == KvFileError::Kind::kIo) {
    spdlog::warn("[ssd cache] could not read: {}", error.message);
    ++read_errors_;
  }
}

}  // namespace cache
