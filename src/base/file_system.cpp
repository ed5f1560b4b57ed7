#include "base/file_system.h"

#include <fmt/format.h>

IoResult<std::string> ReadWholeFile(FileSystem& files, const std::filesystem::path& path,
                                    std::uint64_t limit) {
  IoResult<std::unique_ptr<ReadableFile>> file = files.OpenForRead(path);
  if (!file) {
    return tl::unexpected<IoError>(file.error());
  }
  if ((*file)->size() > limit) {
    return tl::unexpected<IoError>(
        IoError{.kind = IoError::Kind::kOther,
                .message = fmt::format("{} has {} bytes, more than the {} expected", path.string(),
                                       (*file)->size(), limit)});
  }
  std::string text((*file)->size(), '\0');
  if (IoResult<void> read = (*file)->ReadAt(0, std::as_writable_bytes(std::span(text))); !read) {
    return tl::unexpected<IoError>(read.error());
  }
  return text;
}
