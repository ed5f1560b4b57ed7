#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/block_key.h"
#include "cache/ssd_store.h"

// For tests: a store in memory and blocks to put into it.
namespace cache::test_segments {

inline const std::filesystem::path kRoot = "/cache";
inline const std::string kOwn(64, 'a');
inline constexpr std::size_t kFull = 20'000;  // bytes of a block's full group
inline constexpr std::size_t kWindow = 500;

// A branch of blocks with made-up content.
struct Branch {
  explicit Branch(const std::string& salt, TokenId variant, std::size_t n) {
    BlockHasher hasher;
    root = hasher.Root(salt);
    BlockKey parent = root;
    for (std::size_t i = 0; i < n; ++i) {
      BlockContent block;
      block.tokens.fill(variant * 1000 + static_cast<TokenId>(i));
      block.key = hasher.Next(parent, block.tokens);
      block.groups = {Bytes(kFull, block.key), Bytes(kWindow, block.key)};
      parent = block.key;
      blocks.push_back(std::move(block));
    }
  }

  static std::vector<std::byte> Bytes(std::size_t n, const BlockKey& key) {
    std::vector<std::byte> bytes(n);
    for (std::size_t i = 0; i < n; ++i) {
      bytes[i] = static_cast<std::byte>(key[i % key.size()] + i / 7);
    }
    return bytes;
  }

  Segment Part(std::size_t begin, std::size_t end) const {
    Segment segment;
    segment.parent = begin == 0 ? root : blocks[begin - 1].key;
    segment.first_block = static_cast<std::int64_t>(begin);
    segment.blocks.assign(blocks.begin() + static_cast<std::ptrdiff_t>(begin),
                          blocks.begin() + static_cast<std::ptrdiff_t>(end));
    return segment;
  }

  BlockKey root{};
  std::vector<BlockContent> blocks;
};

inline SsdOptions Options() {
  return {.directory = kRoot,
          .budget_bytes = 10'000'000,
          .fingerprint = kOwn,
          .group_bytes = {kFull, kWindow},
          .model_name = "test"};
}

inline std::unique_ptr<SsdStore> Open(FileSystem& files, const SsdOptions& options = Options()) {
  auto store = std::make_unique<SsdStore>(options, files, [] {});
  store->WaitUntilIdle();
  return store;
}

inline std::filesystem::path OnlySegment(const MemoryFileSystem& files) {
  for (const auto& path : files.Files()) {
    if (path.extension() == ".safetensors") {
      return path;
    }
  }
  ADD_FAILURE() << "no segment";
  return {};
}

}  // namespace cache::test_segments
