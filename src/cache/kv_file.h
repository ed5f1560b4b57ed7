#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "base/token_constraint.h"
#include "cache/block_key.h"
#include "cache/kv_file_name.h"
#include "ops/kv_store/block_store.h"

namespace cache {

using BlockTokens = std::array<TokenId, ops::kBlockTokens>;

// What the files of a namespace have in common.
struct KvFileSpec {
  std::string fingerprint;                 // 64 hex digits
  std::vector<std::uint64_t> group_bytes;  // of a block, [layer group]
};

// One block with its content on its way to a file. The bytes of a group that is not kept are empty.
struct BlockContent {
  BlockKey key{};
  BlockTokens tokens{};
  std::vector<std::vector<std::byte>> groups;  // [layer group]
};

// Consecutive blocks of one branch on their way to a file.
struct Segment {
  BlockKey parent{};
  std::int64_t first_block = 0;
  std::vector<BlockContent> blocks;

  [[nodiscard]] KvFileName Name() const;
  [[nodiscard]] std::uint64_t ContentBytes() const;
};

// Why a file was not used.
struct KvFileError {
  enum class Kind {
    kGone,     // no such file: another process removed it
    kDamaged,  // it does not hold what was written
    kForeign,  // whole, but of another version or namespace, or not the block asked for
    kIo,       // the system could not read it
  };
  Kind kind = Kind::kIo;
  std::string message;
};
template <class T>
using KvFileResult = tl::expected<T, KvFileError>;

// Writes the segment (docs/kv_file_format.md) and fsyncs it.
[[nodiscard]] IoResult<void> WriteKvFile(WritableFile& file, const KvFileSpec& spec,
                                         const Segment& segment);

// Bytes of the file that WriteKvFile makes.
[[nodiscard]] std::uint64_t KvFileBytes(const KvFileSpec& spec, const KvFileName& name);

// An open segment whose header has been checked.
class KvFile {
 public:
  // `name` as parsed from the path's last part.
  [[nodiscard]] static KvFileResult<KvFile> Open(FileSystem& files,
                                                 const std::filesystem::path& path,
                                                 const KvFileSpec& spec, const KvFileName& name);

  // The same from what `content` holds; `label` names it in messages.
  [[nodiscard]] static KvFileResult<KvFile> Read(std::unique_ptr<ReadableFile> content,
                                                 std::filesystem::path label,
                                                 const KvFileSpec& spec, const KvFileName& name);

  [[nodiscard]] const BlockKey& parent() const { return parent_; }
  [[nodiscard]] const std::vector<BlockKey>& keys() const { return keys_; }
  // Tokens of the i-th block; their checksum has been checked.
  [[nodiscard]] const BlockTokens& tokens(std::size_t block) const { return tokens_[block]; }

  // Reads a group of the i-th block and checks it. `out` has the group's size. REQUIRES: the name's
  // mask has the group.
  [[nodiscard]] KvFileResult<void> Read(std::size_t block, std::size_t group,
                                        std::span<std::byte> out);

 private:
  struct Tensor {
    std::uint64_t offset = 0;  // in the file
    std::uint64_t bytes = 0;
    std::uint64_t checksum = 0;
  };
  KvFile() = default;
  [[nodiscard]] KvFileResult<void> ReadTensor(const Tensor& tensor, std::span<std::byte> out);
  [[nodiscard]] KvFileResult<void> ReadHeader(const KvFileSpec& spec, const KvFileName& name);
  [[nodiscard]] KvFileResult<void> ReadTokens();

  std::filesystem::path path_;
  std::unique_ptr<ReadableFile> file_;
  BlockKey parent_{};
  std::vector<BlockKey> keys_;
  std::vector<BlockTokens> tokens_;
  Tensor tokens_tensor_;
  std::vector<std::vector<Tensor>> tensors_;  // [block][layer group]
};

}  // namespace cache
