#include "cache/kv_value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <memory>
#include <utility>

namespace cache {
namespace {

class StringWriter final : public WritableFile {
 public:
  explicit StringWriter(std::string& content) : content_(content) {}
  IoResult<void> Append(std::span<const std::byte> bytes) override {
    content_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  }
  IoResult<void> Sync() override { return {}; }

 private:
  std::string& content_;
};

class StringReader final : public ReadableFile {
 public:
  explicit StringReader(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  IoResult<void> ReadAt(std::uint64_t offset, std::span<std::byte> out) override {
    if (offset > content_.size() || content_.size() - offset < out.size()) {
      return tl::unexpected<IoError>(
          IoError{.kind = IoError::Kind::kTruncated, .message = "the value ends too early"});
    }
    std::memcpy(out.data(), content_.data() + offset, out.size());
    return {};
  }

 private:
  std::string content_;
};

KvFileName NameOf(std::int64_t block_index, const BlockKey& parent, const BlockKey& key,
                  std::size_t group) {
  KvFileName name{.first_block = block_index, .parent = TagOf(parent), .blocks = {}};
  name.blocks.push_back({.tag = TagOf(key), .groups = GroupMask{1} << group});
  return name;
}

}  // namespace

std::string KvValueName(const KvFileSpec& spec, const BlockKey& key, std::size_t group) {
  return fmt::format("emberbank:1:{}:{:02x}:{}", spec.fingerprint, fmt::join(key, ""), group);
}

std::string EncodeKvValue(const KvFileSpec& spec, const BlockKey& parent, std::int64_t block_index,
                          BlockContent& block, std::size_t group) {
  Segment segment{.parent = parent, .first_block = block_index, .blocks = {}};
  BlockContent& alone = segment.blocks.emplace_back();
  alone.key = block.key;
  alone.tokens = block.tokens;
  alone.groups.resize(block.groups.size());
  alone.groups[group] = std::move(block.groups[group]);
  std::string value;
  value.reserve(KvFileBytes(spec, segment.Name()));
  StringWriter writer(value);
  (void)WriteKvFile(writer, spec, segment);  // a string takes all
  return value;
}

std::uint64_t KvValueBytes(const KvFileSpec& spec, std::size_t group) {
  return KvFileBytes(spec, NameOf(INT64_MAX, {}, {}, group));
}

KvFileResult<std::vector<std::byte>> DecodeKvValue(std::string value, const KvFileSpec& spec,
                                                   const WantedBlock& wanted, std::size_t group,
                                                   const TakeBuffer& buffers) {
  KvFileResult<KvFile> file =
      KvFile::Read(std::make_unique<StringReader>(std::move(value)),
                   KvValueName(spec, wanted.key, group), spec, NameOf(0, {}, wanted.key, group));
  if (!file) {
    return tl::unexpected<KvFileError>(file.error());
  }
  if (file->keys().front() != wanted.key || file->tokens(0) != wanted.tokens) {
    return tl::unexpected<KvFileError>(
        KvFileError{.kind = KvFileError::Kind::kForeign, .message = "it is another block's"});
  }
  std::vector<std::byte> bytes = buffers(spec.group_bytes[group]);
  if (KvFileResult<void> read = file->Read(0, group, bytes); !read) {
    return tl::unexpected<KvFileError>(read.error());
  }
  return bytes;
}

}  // namespace cache
