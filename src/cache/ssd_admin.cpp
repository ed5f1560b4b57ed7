#include "cache/ssd_admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "cache/ssd_options.h"

namespace cache {
namespace {

constexpr const char* kAbout = "about.json";
constexpr std::uint64_t kMaxAboutBytes = 64 << 10U;
constexpr std::size_t kLeastPrefix = 6;  // of a fingerprint

bool IsMeant(const SsdAdmin::Namespace& space, const std::string& model) {
  return model.empty() || space.model == model ||
         (model.size() >= kLeastPrefix && space.folder.starts_with(model));
}

KvFileResult<void> ReadAll(FileSystem& files, const std::filesystem::path& path,
                           const KvFileSpec& spec, const KvFileName& name) {
  KvFileResult<KvFile> file = KvFile::Open(files, path, spec, name);
  if (!file) {
    return tl::unexpected<KvFileError>(file.error());
  }
  std::vector<std::byte> bytes;
  for (std::size_t block = 0; block < name.blocks.size(); ++block) {
    for (std::size_t g = 0; g < spec.group_bytes.size(); ++g) {
      if ((name.blocks[block].groups >> g & 1U) == 0) {
        continue;
      }
      bytes.resize(spec.group_bytes[g]);
      if (KvFileResult<void> read = file->Read(block, g, bytes); !read) {
        return read;
      }
    }
  }
  return {};
}

std::uint64_t BytesOf(const std::vector<SsdAdmin::Namespace>& spaces) {
  std::uint64_t bytes = 0;
  for (const SsdAdmin::Namespace& space : spaces) {
    bytes += space.bytes;
  }
  return bytes;
}

// Tells how much of `total` is done.
class Meter {
 public:
  Meter(std::uint64_t total, const SsdAdmin::OnProgress& on_progress)
      : total_(total), on_progress_(on_progress) {}
  void Add(std::uint64_t bytes) {
    done_ += bytes;
    if (on_progress_ && total_ > 0) {
      on_progress_(std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)));
    }
  }

 private:
  std::uint64_t total_;
  std::uint64_t done_ = 0;
  const SsdAdmin::OnProgress& on_progress_;
};

}  // namespace

SsdAdmin::SsdAdmin(FileSystem& files, std::filesystem::path root)
    : files_(files), folder_(files, std::move(root), /*own=*/"") {}

void SsdAdmin::ReadAbout(Namespace& space) const {
  const IoResult<std::string> text =
      ReadWholeFile(files_, folder_.PathOf(space.folder, kAbout), kMaxAboutBytes);
  const Result<Json> about = text ? ParseJson(*text) : Result<Json>(Json());
  if (!about || !about->is_object()) {
    return;
  }
  if (const auto model = about->find("model"); model != about->end() && model->is_string()) {
    space.model = model->get<std::string>();
  }
  const auto sizes = about->find("group_bytes");
  const auto is_size = [](const Json& size) { return size.is_number_unsigned(); };
  if (sizes != about->end() && sizes->is_array() && !sizes->empty() &&
      std::ranges::all_of(*sizes, is_size)) {
    space.spec = KvFileSpec{.fingerprint = space.folder,
                            .group_bytes = sizes->get<std::vector<std::uint64_t>>()};
  }
}

std::vector<SsdAdmin::Namespace> SsdAdmin::Namespaces(const std::string& model) const {
  std::map<std::string, Namespace> found;
  folder_.With([&](const SsdIndex& index) {
    for (const auto& [id, file] : index.all()) {
      Namespace& space = found[file.folder];
      space.folder = file.folder;
      ++space.files;
      space.blocks += file.parsed ? file.parsed->blocks.size() : 0;
      space.bytes += file.bytes;
      space.last_use = std::max(space.last_use, file.last_use);
    }
  });
  std::vector<Namespace> spaces;
  for (auto& [folder, space] : found) {
    ReadAbout(space);
    if (IsMeant(space, model)) {
      spaces.push_back(std::move(space));
    }
  }
  std::ranges::sort(spaces, {}, [](const Namespace& space) {
    return std::tuple(space.folder == kDamagedFolder, space.model, space.folder);
  });
  return spaces;
}

std::uint64_t SsdAdmin::StandardBudget() const {
  const std::uint64_t used = folder_.With([](const SsdIndex& index) { return index.used_bytes(); });
  return StandardSsdBudget(files_.FreeBytes(folder_.root()).value_or(0), used);
}

std::vector<SsdAdmin::FileName> SsdAdmin::Garbage(std::uint64_t budget_bytes) const {
  std::vector<FileName> garbage = FilesOf(std::string(kDamagedFolder));
  folder_.With([&](const SsdIndex& index) {
    for (const SsdIndex::FileId id : index.ToEvict(0, budget_bytes)) {
      const SsdIndex::File& file = *index.FileOf(id);
      if (file.folder != kDamagedFolder) {
        garbage.push_back({.folder = file.folder, .name = file.name, .bytes = file.bytes});
      }
    }
  });
  return garbage;
}

std::uint64_t SsdAdmin::Remove(const std::vector<FileName>& names) {
  std::uint64_t removed = 0;
  for (const FileName& file : names) {
    removed += folder_.Remove(file.folder, file.name) ? 1 : 0;
  }
  return removed;
}

std::vector<SsdAdmin::FileName> SsdAdmin::FilesOf(const std::string& folder) const {
  std::vector<FileName> names;
  folder_.With([&](const SsdIndex& index) {
    for (const auto& [id, file] : index.all()) {
      if (file.folder == folder) {
        names.push_back({.folder = folder, .name = file.name, .bytes = file.bytes});
      }
    }
  });
  return names;
}

// Counts the file and says what is wrong with it.
bool SsdAdmin::IsWhole(const Namespace& space, const FileName& file, Checked& checked) const {
  ++checked.files;
  checked.bytes += file.bytes;
  const std::filesystem::path path = folder_.PathOf(file.folder, file.name);
  const std::optional<KvFileName> name = ParseKvFileName(file.name);
  if (!space.spec || !name) {
    checked.unreadable.push_back(
        fmt::format("{}: {} does not say how large its blocks are", path.string(), kAbout));
    return false;
  }
  const KvFileResult<void> read = ReadAll(files_, path, *space.spec, *name);
  if (read) {
    return true;
  }
  switch (read.error().kind) {
    case KvFileError::Kind::kGone:
      break;
    case KvFileError::Kind::kDamaged:
      checked.damaged.push_back(read.error().message);
      break;
    case KvFileError::Kind::kForeign:
    case KvFileError::Kind::kIo:
      checked.unreadable.push_back(read.error().message);
      break;
  }
  return false;
}

SsdAdmin::Checked SsdAdmin::Verify(const std::vector<Namespace>& spaces, bool set_aside,
                                   const OnProgress& on_progress) {
  Checked checked;
  Meter meter(BytesOf(spaces), on_progress);
  for (const Namespace& space : spaces) {
    if (space.folder == kDamagedFolder) {
      continue;
    }
    for (const FileName& file : FilesOf(space.folder)) {
      const std::size_t damaged = checked.damaged.size();
      if (!IsWhole(space, file, checked) && set_aside && checked.damaged.size() > damaged) {
        folder_.SetAside(file.folder, file.name, checked.damaged.back());
      }
      meter.Add(file.bytes);
    }
  }
  return checked;
}

IoResult<SsdAdmin::Checked> SsdAdmin::CopyTo(SsdAdmin& to, const std::vector<Namespace>& spaces,
                                             const OnProgress& on_progress) const {
  Checked checked;
  Meter meter(BytesOf(spaces), on_progress);
  for (const Namespace& space : spaces) {
    if (space.folder == kDamagedFolder) {
      continue;
    }
    std::set<std::string> there;
    for (FileName& file : to.FilesOf(space.folder)) {
      there.insert(std::move(file.name));
    }
    for (const FileName& file : FilesOf(space.folder)) {
      meter.Add(file.bytes);
      if (there.contains(file.name) || !IsWhole(space, file, checked)) {
        continue;
      }
      const IoResult<std::unique_ptr<ReadableFile>> from =
          files_.OpenForRead(folder_.PathOf(file.folder, file.name));
      if (!from) {
        checked.unreadable.push_back(from.error().message);
        continue;
      }
      if (IoResult<void> copied = to.folder_.Copy(file.folder, file.name, **from); !copied) {
        return tl::unexpected<IoError>(copied.error());
      }
    }
    const IoResult<std::string> about =
        ReadWholeFile(files_, folder_.PathOf(space.folder, kAbout), kMaxAboutBytes);
    if (about) {
      (void)to.files_.Update(to.folder_.PathOf(space.folder, kAbout),
                             [&](std::string_view) { return *about; });
    }
  }
  return checked;
}

}  // namespace cache
