#include "app/machine_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <fstream>
#include <functional>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/bytes.h"
#include "base/random_id.h"

namespace app {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kProbeBytes = 256 * kMiB;
constexpr std::size_t kPart = 4 * kMiB;

std::string FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Behind "key   : " or "key:" at the start of a line of the file.
std::string ValueOf(const std::filesystem::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) {
      continue;
    }
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return {};
}

// "8123456 kB" of /proc/meminfo.
std::optional<std::uint64_t> Kilobytes(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) {
    return std::nullopt;
  }
  return value << 10U;
}

// The one in brackets of "always [madvise] never".
std::string Bracketed(const std::string& text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string::npos ? 0 : open);
  return open == std::string::npos || close == std::string::npos
             ? std::string()
             : text.substr(open + 1, close - open - 1);
}

double Seconds(const std::function<bool()>& work) {
  const auto start = std::chrono::steady_clock::now();
  if (!work()) {
    return 0;
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return std::max(elapsed.count(), 1e-9);
}

// The file of a measurement, removed with it.
class ProbeFile {
 public:
  ProbeFile(FileSystem& files, const std::filesystem::path& directory)
      : files_(files), path_(directory / fmt::format("doctor-{}.tmp", RandomId(8))) {}
  ~ProbeFile() { (void)files_.Remove(path_); }
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  [[nodiscard]] IoResult<void> Write(std::uint64_t size) {
    const auto file = files_.Create(path_);
    if (!file) {
      return tl::unexpected(file.error());
    }
    for (std::uint64_t at = 0; at < size; at += kPart) {
      if (IoResult<void> written = (*file)->Append(part_); !written) {
        return written;
      }
    }
    return (*file)->Sync();
  }

  [[nodiscard]] IoResult<void> Read(std::uint64_t size) {
    const auto file = files_.OpenForRead(path_);
    if (!file) {
      return tl::unexpected(file.error());
    }
    for (std::uint64_t at = 0; at < size; at += kPart) {
      if (IoResult<void> read = (*file)->ReadAt(at, part_); !read) {
        return read;
      }
    }
    return {};
  }

  void ForgetCached() { files_.ForgetCached(path_); }

 private:
  FileSystem& files_;
  std::filesystem::path path_;
  // Not zeros: some disks do not store those.
  std::vector<std::byte> part_ = [] {
    std::vector<std::byte> bytes(kPart);
    std::uint64_t state = 1;
    for (std::byte& byte : bytes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<std::byte>(state >> 56U);
    }
    return bytes;
  }();
};

}  // namespace

void ReadSystemFiles(const std::filesystem::path& root, MachineFacts& facts) {
  facts.processor = ValueOf(root / "proc/cpuinfo", "model name");
  const std::string load = FirstLine(root / "proc/loadavg");
  double value = 0;
  if (std::from_chars(load.data(), load.data() + load.size(), value).ec == std::errc()) {
    facts.load = value;
  }
  const std::filesystem::path memory = root / "proc/meminfo";
  facts.available_bytes = Kilobytes(ValueOf(memory, "MemAvailable"));
  const auto swap = Kilobytes(ValueOf(memory, "SwapTotal"));
  const auto unused_swap = Kilobytes(ValueOf(memory, "SwapFree"));
  if (swap && unused_swap) {
    facts.swapped_bytes = *swap - std::min(*swap, *unused_swap);
  }
  facts.large_pages = Bracketed(FirstLine(root / "sys/kernel/mm/transparent_hugepage/enabled"));
  facts.governor = FirstLine(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
}

Result<DiskFacts> MeasureDisk(FileSystem& files, const std::filesystem::path& directory) {
  DiskFacts disk{.directory = directory};
  const auto fail = [&](const IoError& error) {
    return Fail(ErrorCode::kInvalidRequest, fmt::format("The disk of {} cannot be measured: {}.",
                                                        directory.string(), error.message));
  };
  if (const IoResult<void> made = files.CreateDirectories(directory); !made) {
    return fail(made.error());
  }
  disk.free_bytes = files.FreeBytes(directory).value_or(0);
  const std::uint64_t size = std::min(kProbeBytes, disk.free_bytes / 8 / kPart * kPart);
  if (size == 0) {
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("The disk of {} cannot be measured: it has {} left.",
                            directory.string(), FormatBytes(disk.free_bytes)));
  }
  ProbeFile probe(files, directory);
  IoResult<void> done;
  const double writing = Seconds([&] { return (done = probe.Write(size)).has_value(); });
  if (!done) {
    return fail(done.error());
  }
  probe.ForgetCached();
  const double reading = Seconds([&] { return (done = probe.Read(size)).has_value(); });
  if (!done) {
    return fail(done.error());
  }
  disk.write_bytes_per_s = static_cast<double>(size) / writing;
  disk.read_bytes_per_s = static_cast<double>(size) / reading;
  return disk;
}

}  // namespace app
