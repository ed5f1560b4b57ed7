#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/block_reads.h"
#include "cache/ssd_folder.h"

namespace cache {

// Blocks out of the disk tier's files. Thread-safe.
class SsdSource final : public BlockSource {
 public:
  // All must outlive it.
  SsdSource(FileSystem& files, SsdFolder& folder, const KvFileSpec& spec)
      : files_(files), folder_(folder), spec_(spec) {}

  [[nodiscard]] std::unique_ptr<Session> Open() override;
  [[nodiscard]] std::uint64_t read_errors() const { return read_errors_; }

 private:
  class OpenFiles;
  void NoteFailure(const std::string& name, const KvFileError& error);

  FileSystem& files_;
  SsdFolder& folder_;
  const KvFileSpec& spec_;
  std::atomic<std::uint64_t> read_errors_ = 0;
};

}  // namespace cache
