#include "cache/remote_lookups.h"

#include <algorithm>
#include <utility>

#include "cache/kv_value.h"

namespace cache {
namespace {

constexpr std::size_t kAskTogether = 64;  // blocks: a new prompt's lookup ends with the first
constexpr std::size_t kReplyBytes = 512;  // more than an integer or an error's text

}  // namespace

RedisResult<std::vector<bool>> AskForValues(RedisConnection& connection,
                                            const RemoteOptions& options,
                                            const std::vector<std::string>& names) {
  const std::string ttl = std::to_string(options.ttl.count());
  std::vector<RedisCommand> commands;
  for (const std::string& name : names) {
    commands.push_back(options.ttl.count() == 0 ? RedisCommand{"EXISTS", name}
                                                : RedisCommand{"EXPIRE", name, ttl});
  }
  const auto replies = connection.Run(commands, options.timeout, kReplyBytes * (names.size() + 1));
  if (!replies) {
    return tl::unexpected<RedisError>(replies.error());
  }
  std::vector<bool> there;
  for (const RedisReply& reply : *replies) {
    if (reply.kind != RedisReply::Kind::kInteger) {
      return tl::unexpected<RedisError>(
          RedisError{.kind = RedisError::Kind::kRefused, .message = reply.text});
    }
    there.push_back(reply.integer == 1);
  }
  return there;
}

void RemoteLookups::Run() {
  RedisConnection connection(options_.address, stop_);
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stopping_ || !asked_.empty(); });
    if (stopping_) {
      return;
    }
    const LookupId id = asked_.front();
    asked_.pop_front();
    const std::vector<WantedBlock> blocks = std::move(lookups_.at(id).blocks);
    const GroupMask needed = lookups_.at(id).needed;
    lock.unlock();
    std::vector<GroupMask> found = LookUp(connection, blocks, needed);
    lock.lock();
    if (const auto lookup = lookups_.find(id); lookup != lookups_.end()) {
      lookup->second.found = std::move(found);
    }
    lock.unlock();
    wake_();
    lock.lock();
  }
}

void RemoteLookups::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
}

std::vector<GroupMask> RemoteLookups::LookUp(RedisConnection& connection,
                                             const std::vector<WantedBlock>& blocks,
                                             GroupMask needed) {
  ++lookups_done_;
  std::vector<GroupMask> found(blocks.size(), 0);
  for (std::size_t begin = 0; begin < blocks.size() && !health_.IsDown(); begin += kAskTogether) {
    const std::size_t n = std::min(kAskTogether, blocks.size() - begin);
    if (!AskForPart(connection, std::span(blocks).subspan(begin, n),
                    std::span(found).subspan(begin, n))) {
      break;
    }
    bool goes_on = true;
    for (std::size_t i = begin; i < begin + n; ++i) {
      const GroupMask must = blocks[i].groups & needed;
      goes_on = goes_on && (found[i] & must) == must;
      found_blocks_ += found[i] != 0 ? 1 : 0;
    }
    if (!goes_on) {
      break;
    }
  }
  return found;
}

bool RemoteLookups::AskForPart(RedisConnection& connection, std::span<const WantedBlock> blocks,
                               std::span<GroupMask> found) {
  std::vector<std::string> names;
  std::vector<std::pair<std::size_t, std::size_t>> places;  // block, group
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (std::size_t g = 0; g < spec_.group_bytes.size(); ++g) {
      if ((blocks[i].groups >> g & 1U) != 0) {
        names.push_back(KvValueName(spec_, blocks[i].key, g));
        places.emplace_back(i, g);
      }
    }
  }
  const RedisResult<std::vector<bool>> there = AskForValues(connection, options_, names);
  if (!there) {
    health_.NoteFailure(there.error());
    return false;
  }
  health_.NoteAnswer();
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto [i, g] = places[k];
    found[i] |= (*there)[k] && !source_.IsBad(names[k]) ? GroupMask{1} << g : 0U;
  }
  return true;
}

std::optional<RemoteLookups::LookupId> RemoteLookups::Start(std::vector<WantedBlock> blocks,
                                                            GroupMask needed) {
  if (health_.IsDown()) {
    return std::nullopt;
  }
  LookupId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    lookups_[id] = {.blocks = std::move(blocks), .needed = needed};
    asked_.push_back(id);
  }
  work_.notify_all();
  return id;
}

std::optional<std::vector<GroupMask>> RemoteLookups::Take(LookupId id) {
  const std::lock_guard lock(mutex_);
  return std::exchange(lookups_.at(id).found, std::nullopt);
}

void RemoteLookups::End(LookupId id) {
  const std::lock_guard lock(mutex_);
  lookups_.erase(id);
  std::erase(asked_, id);
}

}  // namespace cache
