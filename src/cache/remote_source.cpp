#include "cache/remote_source.h"

#include <fmt/format.h>

#include <utility>

#include "cache/kv_value.h"

namespace cache {
namespace {

constexpr std::uint64_t kBytesPerMs = 10'000;
// A reply's own bytes around the value.
constexpr std::size_t kReplyFrame = 64;
constexpr std::size_t kMaxBad = 4096;  // names kept

}  // namespace

std::chrono::milliseconds TimeFor(std::uint64_t bytes) {
  return std::chrono::milliseconds(bytes / kBytesPerMs);
}

class RemoteSource::Reader final : public BlockSource::Session {
 public:
  Reader(RemoteSource& source, std::unique_ptr<RedisConnection> connection)
      : source_(source), connection_(std::move(connection)) {}
  ~Reader() override {
    const std::lock_guard lock(source_.mutex_);
    source_.spare_.push_back(std::move(connection_));
  }

  std::optional<BlockRead> ReadBlock(const WantedBlock& wanted,
                                     const TakeBuffer& buffers) override;

 private:
  [[nodiscard]] std::optional<std::vector<std::byte>> ReadGroup(const WantedBlock& wanted,
                                                                std::size_t group,
                                                                const TakeBuffer& buffers);
  RemoteSource& source_;
  std::unique_ptr<RedisConnection> connection_;
};

std::unique_ptr<BlockSource::Session> RemoteSource::Open() {
  std::unique_ptr<RedisConnection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      connection = std::move(spare_.back());
      spare_.pop_back();
    }
  }
  if (connection == nullptr) {
    connection = std::make_unique<RedisConnection>(options_.address, stop_);
  }
  return std::make_unique<Reader>(*this, std::move(connection));
}

std::optional<BlockRead> RemoteSource::Reader::ReadBlock(const WantedBlock& wanted,
                                                         const TakeBuffer& buffers) {
  BlockRead block;
  block.groups.resize(source_.spec_.group_bytes.size());
  for (std::size_t g = 0; g < block.groups.size(); ++g) {
    if ((wanted.groups >> g & 1U) == 0) {
      continue;
    }
    std::optional<std::vector<std::byte>> bytes = ReadGroup(wanted, g, buffers);
    if (!bytes) {
      return std::nullopt;
    }
    block.groups[g] = std::move(*bytes);
  }
  return block;
}

std::optional<std::vector<std::byte>> RemoteSource::Reader::ReadGroup(const WantedBlock& wanted,
                                                                      std::size_t group,
                                                                      const TakeBuffer& buffers) {
  if (source_.health_.IsDown()) {
    return std::nullopt;
  }
  const std::string name = KvValueName(source_.spec_, wanted.key, group);
  const std::uint64_t most = KvValueBytes(source_.spec_, group);
  RedisResult<std::vector<RedisReply>> replies = connection_->Run(
      {{"GET", name}}, source_.options_.timeout + TimeFor(most), most + kReplyFrame);
  if (!replies) {
    source_.health_.NoteFailure(replies.error());
    return std::nullopt;
  }
  RedisReply& reply = replies->front();
  if (reply.kind == RedisReply::Kind::kNothing) {
    source_.health_.NoteAnswer();
    ++source_.missing_blocks_;
    return std::nullopt;
  }
  if (reply.kind != RedisReply::Kind::kBytes) {
    source_.health_.NoteFailure({.kind = RedisError::Kind::kRefused, .message = reply.text});
    return std::nullopt;
  }
  source_.health_.NoteAnswer();
  KvFileResult<std::vector<std::byte>> bytes =
      DecodeKvValue(std::move(reply.text), source_.spec_, wanted, group, buffers);
  if (!bytes) {
    source_.NoteDamage(*connection_, name, bytes.error().message);
    return std::nullopt;
  }
  return std::move(*bytes);
}

bool RemoteSource::IsBad(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  return bad_.contains(name);
}

// Removes the value, so that whoever computes the block next writes it anew.
void RemoteSource::NoteDamage(RedisConnection& connection, const std::string& name,
                              const std::string& why) {
  ++damaged_blocks_;
  health_.Complain(fmt::format("a damaged value is removed: {}", why));
  const auto replies = connection.Run({{"DEL", name}}, options_.timeout, kReplyFrame);
  const bool is_gone = replies && replies->front().kind == RedisReply::Kind::kInteger;
  const std::lock_guard lock(mutex_);
  if (!is_gone && bad_.size() < kMaxBad) {
    bad_.insert(name);
  }
}

}  // namespace cache
