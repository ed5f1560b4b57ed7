#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>

#include "base/result.h"

namespace model_files {

// A file mapped read-only. Owns the mapping; thread-safe.
class MappedFile {
 public:
  // Errors: kIo, naming the path and the system's reason.
  [[nodiscard]] static Result<std::shared_ptr<const MappedFile>> Open(
      const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  // Tells the system that these bytes (inside bytes()) were read and need no page cache of this
  // process any more: after a tensor is repacked, the mapping costs no resident memory.
  void DropPages(std::span<const std::byte> range) const;

 private:
  MappedFile(std::filesystem::path path, std::span<const std::byte> bytes);
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace model_files
