#include "cache/kv_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <charconv>
#include <utility>

#include "base/json.h"

namespace cache {
namespace {

static_assert(std::endian::native == std::endian::little, "files hold little-endian numbers");

constexpr std::string_view kFormat = "emberbank-kv";
constexpr std::string_view kVersion = "1";
constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kDataAlignment = 4096;
constexpr std::uint64_t kMaxHeaderBytes = 64 << 10U;
constexpr std::uint64_t kTokensBytes = sizeof(BlockTokens);
constexpr std::size_t kHashDigits = 16;

// All that a header says.
struct Header {
  std::string fingerprint;
  BlockKey parent{};
  std::int64_t first_block = 0;
  std::vector<BlockKey> keys;
  std::vector<std::uint64_t> checksums;  // of the tensors in file order
};

std::uint64_t Checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string Hex(const BlockKey& key) { return fmt::format("{:02x}", fmt::join(key, "")); }

bool ReadHex(std::string_view text, BlockKey& key) {
  if (text.size() != 2 * key.size()) {
    return false;
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    const char* first = text.data() + 2 * i;
    if (std::from_chars(first, first + 2, key[i], 16).ptr != first + 2) {
      return false;
    }
  }
  return true;
}

std::vector<std::string_view> SplitAtCommas(std::string_view text) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string JoinHashes(const std::vector<std::uint64_t>& hashes) {
  return fmt::format("{:016x}", fmt::join(hashes, ","));
}

// Name and size of each tensor in file order.
struct TensorPlan {
  std::string name;
  const char* dtype = "U8";
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
};

std::vector<TensorPlan> Plan(const KvFileSpec& spec, const std::vector<KvFileName::Block>& blocks) {
  std::vector<TensorPlan> plan;
  plan.push_back({.name = "tokens",
                  .dtype = "I32",
                  .shape = {blocks.size(), ops::kBlockTokens},
                  .bytes = blocks.size() * kTokensBytes});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t g = 0; g < spec.group_bytes.size(); ++g) {
      if ((blocks[i].groups >> g & 1U) != 0) {
        plan.push_back({.name = fmt::format("b{}.g{}", i, g),
                        .shape = {spec.group_bytes[g]},
                        .bytes = spec.group_bytes[g]});
      }
    }
  }
  return plan;
}

// The file's bytes before its data: a function of what it says, so reading and writing again finds
// any change.
std::string FormatHeader(const Header& header, const std::vector<TensorPlan>& plan) {
  std::vector<std::string> keys;
  for (const BlockKey& key : header.keys) {
    keys.push_back(Hex(key));
  }
  Json json = {{"__metadata__",
                {{"format", kFormat},
                 {"version", kVersion},
                 {"fingerprint", header.fingerprint},
                 {"parent", Hex(header.parent)},
                 {"first_block", std::to_string(header.first_block)},
                 {"keys", fmt::format("{}", fmt::join(keys, ","))},
                 {"xxh3", JoinHashes(header.checksums)}}}};
  std::uint64_t offset = 0;
  for (const TensorPlan& tensor : plan) {
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = DumpJson(json);
  const std::uint64_t used = kLengthBytes + text.size();
  text.append((kDataAlignment - used % kDataAlignment) % kDataAlignment, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

tl::unexpected<KvFileError> Unusable(KvFileError::Kind kind, std::string message) {
  return tl::unexpected<KvFileError>(KvFileError{.kind = kind, .message = std::move(message)});
}

tl::unexpected<KvFileError> Damaged(const std::filesystem::path& path, std::string_view what) {
  return Unusable(KvFileError::Kind::kDamaged, fmt::format("{}: {}", path.string(), what));
}

KvFileError FromIo(const IoError& error) {
  const bool gone = error.kind == IoError::Kind::kNotFound;
  const bool damaged = error.kind == IoError::Kind::kTruncated;
  return {.kind = gone      ? KvFileError::Kind::kGone
                  : damaged ? KvFileError::Kind::kDamaged
                            : KvFileError::Kind::kIo,
          .message = error.message};
}

// The metadata's value, empty when it is not there.
std::string MetadataValue(const Json& json, const char* key) {
  const auto metadata = json.find("__metadata__");
  if (metadata == json.end() || !metadata->is_object()) {
    return "";
  }
  const auto found = metadata->find(key);
  return found != metadata->end() && found->is_string() ? found->get<std::string>() : "";
}

bool ParseMetadata(const Json& json, Header& header) {
  header.fingerprint = MetadataValue(json, "fingerprint");
  const std::string first = MetadataValue(json, "first_block");
  const auto number =
      std::from_chars(first.data(), first.data() + first.size(), header.first_block);
  if (number.ec != std::errc() || number.ptr != first.data() + first.size() ||
      !ReadHex(MetadataValue(json, "parent"), header.parent)) {
    return false;
  }
  const std::string keys = MetadataValue(json, "keys");
  for (const std::string_view text : SplitAtCommas(keys)) {
    if (!ReadHex(text, header.keys.emplace_back())) {
      return false;
    }
  }
  const std::string hashes = MetadataValue(json, "xxh3");
  for (const std::string_view text : SplitAtCommas(hashes)) {
    std::uint64_t& hash = header.checksums.emplace_back();
    if (text.size() != kHashDigits ||
        std::from_chars(text.data(), text.data() + text.size(), hash, 16).ptr !=
            text.data() + text.size()) {
      return false;
    }
  }
  return true;
}

std::uint64_t DataBytes(const std::vector<TensorPlan>& plan) {
  std::uint64_t bytes = 0;
  for (const TensorPlan& tensor : plan) {
    bytes += tensor.bytes;
  }
  return bytes;
}

}  // namespace

KvFileName Segment::Name() const {
  KvFileName name{.first_block = first_block, .parent = TagOf(parent), .blocks = {}};
  for (const BlockContent& block : blocks) {
    GroupMask groups = 0;
    for (std::size_t g = 0; g < block.groups.size(); ++g) {
      groups |= block.groups[g].empty() ? 0U : 1U << g;
    }
    name.blocks.push_back({.tag = TagOf(block.key), .groups = groups});
  }
  return name;
}

std::uint64_t Segment::ContentBytes() const {
  std::uint64_t bytes = 0;
  for (const BlockContent& block : blocks) {
    for (const std::vector<std::byte>& group : block.groups) {
      bytes += group.size();
    }
  }
  return bytes;
}

IoResult<void> WriteKvFile(WritableFile& file, const KvFileSpec& spec, const Segment& segment) {
  const KvFileName name = segment.Name();
  Header header{.fingerprint = spec.fingerprint,
                .parent = segment.parent,
                .first_block = segment.first_block,
                .keys = {},
                .checksums = {}};
  std::vector<TokenId> tokens;
  for (const BlockContent& block : segment.blocks) {
    header.keys.push_back(block.key);
    tokens.insert(tokens.end(), block.tokens.begin(), block.tokens.end());
  }
  std::vector<std::span<const std::byte>> data = {std::as_bytes(std::span(tokens))};
  for (const BlockContent& block : segment.blocks) {
    for (const std::vector<std::byte>& group : block.groups) {
      if (!group.empty()) {
        data.emplace_back(group);
      }
    }
  }
  for (const std::span<const std::byte> tensor : data) {
    header.checksums.push_back(Checksum(tensor));
  }
  const std::string head = FormatHeader(header, Plan(spec, name.blocks));
  if (IoResult<void> written = file.Append(std::as_bytes(std::span(head))); !written) {
    return written;
  }
  for (const std::span<const std::byte> tensor : data) {
    if (IoResult<void> written = file.Append(tensor); !written) {
      return written;
    }
  }
  return file.Sync();
}

std::uint64_t KvFileBytes(const KvFileSpec& spec, const KvFileName& name) {
  const std::vector<TensorPlan> plan = Plan(spec, name.blocks);
  Header header{.fingerprint = spec.fingerprint,
                .parent = {},
                .first_block = name.first_block,
                .keys = std::vector<BlockKey>(name.blocks.size()),
                .checksums = std::vector<std::uint64_t>(plan.size())};
  return FormatHeader(header, plan).size() + DataBytes(plan);
}

KvFileResult<KvFile> KvFile::Open(FileSystem& files, const std::filesystem::path& path,
                                  const KvFileSpec& spec, const KvFileName& name) {
  IoResult<std::unique_ptr<ReadableFile>> opened = files.OpenForRead(path);
  if (!opened) {
    return tl::unexpected<KvFileError>(FromIo(opened.error()));
  }
  return Read(std::move(*opened), path, spec, name);
}

KvFileResult<KvFile> KvFile::Read(std::unique_ptr<ReadableFile> content,
                                  std::filesystem::path label, const KvFileSpec& spec,
                                  const KvFileName& name) {
  KvFile file;
  file.path_ = std::move(label);
  file.file_ = std::move(content);
  if (KvFileResult<void> read = file.ReadHeader(spec, name); !read) {
    return tl::unexpected<KvFileError>(read.error());
  }
  if (KvFileResult<void> read = file.ReadTokens(); !read) {
    return tl::unexpected<KvFileError>(read.error());
  }
  return file;
}

KvFileResult<void> KvFile::ReadHeader(const KvFileSpec& spec, const KvFileName& name) {
  std::uint64_t length = 0;
  const auto length_bytes = std::as_writable_bytes(std::span(&length, 1));
  if (IoResult<void> read = file_->ReadAt(0, length_bytes); !read) {
    return tl::unexpected<KvFileError>(FromIo(read.error()));
  }
  if (length > kMaxHeaderBytes || length + kLengthBytes > file_->size()) {
    return Damaged(path_, "its header has no sensible length");
  }
  std::string bytes(kLengthBytes + length, '\0');
  if (IoResult<void> read = file_->ReadAt(0, std::as_writable_bytes(std::span(bytes))); !read) {
    return tl::unexpected<KvFileError>(FromIo(read.error()));
  }
  const Result<Json> json = ParseJson(std::string_view(bytes).substr(kLengthBytes));
  if (!json || !json->is_object()) {
    return Damaged(path_, "its header is no JSON object");
  }
  const std::string version = MetadataValue(*json, "version");
  if (MetadataValue(*json, "format") == kFormat && !version.empty() && version != kVersion) {
    return Unusable(KvFileError::Kind::kForeign,
                    fmt::format("{} is of version {}", path_.string(), version));
  }
  Header header;
  if (!ParseMetadata(*json, header)) {
    return Damaged(path_, "its header lacks what it must say");
  }
  const std::vector<TensorPlan> plan = Plan(spec, name.blocks);
  if (FormatHeader(header, plan) != bytes || header.keys.size() != name.blocks.size() ||
      header.checksums.size() != plan.size()) {
    return Damaged(path_, "its header is not as it was written");
  }
  if (header.fingerprint != spec.fingerprint) {
    return Unusable(KvFileError::Kind::kForeign,
                    fmt::format("{} belongs to another namespace", path_.string()));
  }
  if (bytes.size() + DataBytes(plan) != file_->size()) {
    return Damaged(path_, fmt::format("it has {} bytes and should have {}", file_->size(),
                                      bytes.size() + DataBytes(plan)));
  }
  parent_ = header.parent;
  keys_ = std::move(header.keys);
  std::uint64_t offset = bytes.size();
  std::size_t next = 0;
  const auto take = [&] {
    const Tensor tensor{
        .offset = offset, .bytes = plan[next].bytes, .checksum = header.checksums[next]};
    offset += plan[next++].bytes;
    return tensor;
  };
  tokens_tensor_ = take();
  for (const KvFileName::Block& block : name.blocks) {
    std::vector<Tensor>& groups = tensors_.emplace_back(spec.group_bytes.size());
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if ((block.groups >> g & 1U) != 0) {
        groups[g] = take();
      }
    }
  }
  return {};
}

KvFileResult<void> KvFile::ReadTokens() {
  tokens_.resize(keys_.size());
  return ReadTensor(tokens_tensor_, std::as_writable_bytes(std::span(tokens_)));
}

KvFileResult<void> KvFile::Read(std::size_t block, std::size_t group, std::span<std::byte> out) {
  const Tensor& tensor = tensors_[block][group];
  assert(tensor.bytes == out.size() && tensor.offset > 0);
  return ReadTensor(tensor, out);
}

KvFileResult<void> KvFile::ReadTensor(const Tensor& tensor, std::span<std::byte> out) {
  if (IoResult<void> read = file_->ReadAt(tensor.offset, out); !read) {
    return tl::unexpected<KvFileError>(FromIo(read.error()));
  }
  if (Checksum(out) != tensor.checksum) {
    return Damaged(path_, fmt::format("the {} bytes at {} are not those that were written",
                                      tensor.bytes, tensor.offset));
  }
  return {};
}

}  // namespace cache
