#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/block_key.h"

namespace cache {

// The first 40 bits of a block key: names a block in a file name (docs/kv_file_format.md). A hint:
// two keys may share a tag.
struct BlockTag {
  std::uint64_t bits = 0;
  auto operator<=>(const BlockTag&) const = default;
};

[[nodiscard]] BlockTag TagOf(const BlockKey& key);

struct BlockTagHash {
  [[nodiscard]] std::size_t operator()(BlockTag tag) const {
    return static_cast<std::size_t>(tag.bits);  // bits of a SHA-256
  }
};

// Layer groups of a block that are there, bit g for group g.
using GroupMask = std::uint32_t;

inline constexpr int kMaxKvGroups = 5;        // a mask is one character of base 32
inline constexpr int kMaxSegmentBlocks = 16;  // 16 blocks and the rest fit into a name of 255 bytes

// What a segment's name says.
struct KvFileName {
  struct Block {
    BlockTag tag;
    GroupMask groups = 0;
    auto operator<=>(const Block&) const = default;
  };
  std::int64_t first_block = 0;
  BlockTag parent;
  std::vector<Block> blocks;  // 1 .. kMaxSegmentBlocks
  auto operator<=>(const KvFileName&) const = default;
};

[[nodiscard]] std::string FormatKvFileName(const KvFileName& name);

// Nothing when `text` is not just what FormatKvFileName makes.
[[nodiscard]] std::optional<KvFileName> ParseKvFileName(std::string_view text);

}  // namespace cache
