#include "cache/ssd_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.h"

namespace cache {
namespace {

// A run is read by one thread: small enough that several share a long prompt and that the first
// blocks reach memory while the others are still on the disk, large enough for the disk's full
// speed.
constexpr std::uint64_t kRunBytes = std::uint64_t{16} << 20U;

}  // namespace

// The files that one run has open.
class SsdReads::OpenFiles {
 public:
  struct File {
    std::string name;
    KvFile file;
  };

  // The file's entry, opened when it is not; null when it cannot be (then `failed` is called).
  template <class Failed>
  File* Get(SsdReads& reads, SsdIndex::FileId id, const Failed& failed) {
    if (const auto found = files_.find(id); found != files_.end()) {
      return &found->second;
    }
    std::string name;
    KvFileName parsed;
    reads.folder_.With([&](const SsdIndex& index) {
      if (const SsdIndex::File* file = index.FileOf(id)) {
        name = file->name;
        parsed = *file->parsed;
      }
    });
    if (name.empty()) {
      return nullptr;
    }
    const std::filesystem::path path = reads.folder_.PathOf(reads.folder_.own(), name);
    KvFileResult<KvFile> opened = KvFile::Open(reads.files_, path, reads.spec_, parsed);
    if (!opened) {
      failed(name, opened.error());
      return nullptr;
    }
    (void)reads.files_.Touch(path);  // its last use, for whoever evicts after a restart
    reads.folder_.With(
        [&](SsdIndex& index) { index.NoteUse(id, std::chrono::system_clock::now()); });
    return &files_.emplace(id, File{.name = name, .file = std::move(*opened)}).first->second;
  }

 private:
  std::map<SsdIndex::FileId, File> files_;
};

SsdReads::SsdReads(FileSystem& files, SsdFolder& folder, const KvFileSpec& spec,
                   std::uint64_t read_ahead_bytes, const std::function<void()>& wake)
    : files_(files),
      folder_(folder),
      spec_(spec),
      read_ahead_bytes_(read_ahead_bytes),
      wake_(wake) {}

std::uint64_t SsdReads::BytesOf(const BlockRead& block) const {
  std::uint64_t bytes = 0;
  for (const std::vector<std::byte>& group : block.groups) {
    bytes += group.size();
  }
  return bytes;
}

std::uint64_t SsdReads::BytesOf(const WantedBlock& block) const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < spec_.group_bytes.size(); ++g) {
    bytes += (block.groups >> g & 1U) != 0 ? spec_.group_bytes[g] : 0;
  }
  return bytes;
}

SsdStore::ReadId SsdReads::Start(std::vector<WantedBlock> wanted) {
  SsdStore::ReadId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    reads_[id] = {.arrived = {}, .next = 0, .end = wanted.size(), .wanted = wanted.size()};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::uint64_t bytes = BytesOf(wanted[i]);
      if (i == 0 || runs_.back().bytes + bytes > kRunBytes) {
        runs_.push_back({.read = id, .begin = i, .end = i, .bytes = 0, .wanted = {}});
      }
      Run& run = runs_.back();
      run.end = i + 1;
      run.bytes += bytes;
      run.wanted.push_back(wanted[i]);
    }
  }
  work_.notify_all();
  return id;
}

SsdStore::ReadProgress SsdReads::Take(SsdStore::ReadId id) {
  SsdStore::ReadProgress progress;
  {
    const std::lock_guard lock(mutex_);
    Read& read = reads_.at(id);
    while (!read.arrived.empty() && read.arrived.begin()->first == read.next &&
           read.next < read.end) {
      BlockRead& block = read.arrived.begin()->second;
      staged_bytes_ -= BytesOf(block);
      progress.blocks.push_back(std::move(block));
      read.arrived.erase(read.arrived.begin());
      ++read.next;
    }
    progress.ended = read.next >= read.end;
    progress.failed = read.end < read.wanted;
  }
  work_.notify_all();
  return progress;
}

void SsdReads::Recycle(BlockRead block) {
  const std::lock_guard lock(mutex_);
  std::uint64_t kept = 0;
  for (const std::vector<std::byte>& buffer : spare_) {
    kept += buffer.size();
  }
  for (std::vector<std::byte>& buffer : block.groups) {
    if (!buffer.empty() && !reads_.empty() && kept + buffer.size() <= read_ahead_bytes_) {
      kept += buffer.size();
      spare_.push_back(std::move(buffer));
    }
  }
}

std::vector<std::byte> SsdReads::TakeBuffer(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(
        spare_, [bytes](const std::vector<std::byte>& buffer) { return buffer.size() == bytes; });
    if (fits != spare_.end()) {
      std::vector<std::byte> buffer = std::move(*fits);
      spare_.erase(fits);
      return buffer;
    }
  }
  return std::vector<std::byte>(bytes);
}

void SsdReads::End(SsdStore::ReadId id) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [place, block] : reads_.at(id).arrived) {
      staged_bytes_ -= BytesOf(block);
    }
    reads_.erase(id);
    std::erase_if(runs_, [id](const Run& run) { return run.read == id; });
    if (reads_.empty()) {
      spare_.clear();
    }
  }
  work_.notify_all();
}

void SsdReads::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
}

void SsdReads::RunReader() {
  std::unique_lock lock(mutex_);
  while (true) {
    // A run may be larger than the limit: alone it may always start.
    work_.wait(lock, [this] {
      return stopping_ ||
             (!runs_.empty() &&
              (staged_bytes_ == 0 || staged_bytes_ + runs_.front().bytes <= read_ahead_bytes_));
    });
    if (stopping_) {
      return;
    }
    const Run run = std::move(runs_.front());
    runs_.pop_front();
    staged_bytes_ += run.bytes;
    lock.unlock();
    DoRun(run);
    lock.lock();
  }
}

// Hands each block over as soon as it is read: what had been counted for the run stays counted for
// the blocks that came of it.
void SsdReads::DoRun(const Run& run) {
  OpenFiles open;
  for (std::size_t i = run.begin; i < run.end; ++i) {
    std::optional<BlockRead> block = ReadBlock(open, run.wanted[i - run.begin]);
    bool is_over = false;
    {
      const std::lock_guard lock(mutex_);
      const auto read = reads_.find(run.read);
      const std::uint64_t bytes = BytesOf(run.wanted[i - run.begin]);
      if (read != reads_.end() && block) {
        block->wanted = i;
        read_bytes_ += bytes;
        ++read_blocks_;
        read->second.arrived[i] = std::move(*block);
      } else {
        for (std::size_t rest = i; rest < run.end; ++rest) {
          staged_bytes_ -= BytesOf(run.wanted[rest - run.begin]);
        }
        is_over = true;
        if (read != reads_.end()) {
          read->second.end = std::min(read->second.end, i);
        }
      }
    }
    if (is_over) {
      work_.notify_all();
      break;
    }
    if (i + 1 < run.end) {
      wake_();
    }
  }
  wake_();
}

std::optional<BlockRead> SsdReads::ReadBlock(OpenFiles& open, const WantedBlock& wanted) {
  BlockRead block;
  block.groups.resize(spec_.group_bytes.size());
  for (std::size_t g = 0; g < spec_.group_bytes.size(); ++g) {
    if ((wanted.groups >> g & 1U) == 0) {
      continue;
    }
    const std::optional<SsdIndex::Place> place =
        folder_.With([&](const SsdIndex& index) { return index.Find(TagOf(wanted.key), g); });
    if (!place) {
      return std::nullopt;
    }
    const auto failed = [this](const std::string& name, const KvFileError& error) {
      NoteFailure(name, error);
    };
    OpenFiles::File* file = open.Get(*this, place->file, failed);
    if (file == nullptr) {
      return std::nullopt;
    }
    if (file->file.keys()[place->block] != wanted.key ||
        file->file.tokens(place->block) != wanted.tokens) {
      NoteFailure(file->name, {.kind = KvFileError::Kind::kForeign,
                               .message = file->name + " holds another block of the same tag"});
      return std::nullopt;
    }
    block.groups[g] = TakeBuffer(spec_.group_bytes[g]);
    if (KvFileResult<void> read = file->file.Read(place->block, g, block.groups[g]); !read) {
      NoteFailure(file->name, read.error());
      return std::nullopt;
    }
  }
  return block;
}

void SsdReads::NoteFailure(const std::string& name, const KvFileError& error) {
  if (error.kind == KvFileError::Kind::kDamaged) {
    folder_.SetAside(folder_.own(), name, error.message);
    return;
  }
  // Not found again before the folder is listed anew.
  folder_.With([&](SsdIndex& index) { index.Erase(folder_.own(), name); });
  if (error.kind == KvFileError::Kind::kIo) {
    spdlog::warn("[ssd cache] could not read: {}", error.message);
    const std::lock_guard lock(mutex_);
    ++read_errors_;
  }
}

void SsdReads::AddTo(SsdStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.staged_bytes = staged_bytes_;
  stats.read_bytes = read_bytes_;
  stats.read_blocks = read_blocks_;
  stats.read_errors = read_errors_;
}

}  // namespace cache
