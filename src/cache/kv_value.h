#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/block_reads.h"
#include "cache/kv_file.h"

namespace cache {

// What the shared tier keeps under one key: a segment of one block with one layer group, byte for
// byte as a file of it (docs/kv_file_format.md).

// Name of the value. Different prefixes, tenants and fingerprints have different ones.
[[nodiscard]] std::string KvValueName(const KvFileSpec& spec, const BlockKey& key,
                                      std::size_t group);

// Takes the group's bytes out of `block`. REQUIRES: they are there.
[[nodiscard]] std::string EncodeKvValue(const KvFileSpec& spec, const BlockKey& parent,
                                        std::int64_t block_index, BlockContent& block,
                                        std::size_t group);

// Most bytes that a value of the group can have.
[[nodiscard]] std::uint64_t KvValueBytes(const KvFileSpec& spec, std::size_t group);

// The group's bytes, when `value` is what EncodeKvValue made of this block; else why not.
[[nodiscard]] KvFileResult<std::vector<std::byte>> DecodeKvValue(std::string value,
                                                                 const KvFileSpec& spec,
                                                                 const WantedBlock& wanted,
                                                                 std::size_t group,
                                                                 const TakeBuffer& buffers);

}  // namespace cache
