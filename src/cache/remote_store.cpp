#include "cache/remote_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "cache/block_reads.h"
#include "cache/kv_value.h"
#include "cache/redis_connection.h"
#include "cache/remote_health.h"
#include "cache/remote_lookups.h"
#include "cache/remote_source.h"

namespace cache {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int kReaders = 2;  // one waits for the server while the other checks
constexpr std::size_t kReplyBytes = 512;  // more than an integer or an error's text
constexpr int kWriteTries = 3;
constexpr std::chrono::milliseconds kLookAgain{50};
constexpr std::chrono::seconds kFarewell{2};

// A value on its way to the server.
struct Value {
  std::string name;
  std::string content;
};

}  // namespace

struct RemoteStore::Impl {
  Impl(RemoteOptions store_options, std::function<void()> wake_caller)
      : options(std::move(store_options)),
        wake(std::move(wake_caller)),
        spec{.fingerprint = options.fingerprint, .group_bytes = options.group_bytes},
        health(options.address.Label()),
        source(options, spec, health, stop),
        lookups(options, spec, health, source, stop, wake),
        reads(source, options.group_bytes, options.read_ahead_bytes, wake),
        ttl(std::to_string(options.ttl.count())) {}

  void RunWriter();
  void WriteOne(RedisConnection& connection, Segment segment);
  [[nodiscard]] bool TryWrite(RedisConnection& connection, std::vector<Value>& values);
  bool WaitWhileDown();

  const RemoteOptions options;
  const std::function<void()> wake;
  const KvFileSpec spec;
  std::atomic<bool> stop = false;
  RemoteHealth health;
  RemoteSource source;
  RemoteLookups lookups;
  BlockReads reads;
  const std::string ttl;

  mutable std::mutex mutex;
  std::condition_variable work;
  std::condition_variable idle;
  // Guarded by mutex:
  std::deque<Segment> queue;
  std::uint64_t queued_bytes = 0;  // the one being written included
  bool stopping = false;
  SteadyClock::time_point give_up_at = SteadyClock::time_point::max();  // with stopping

  std::atomic<std::uint64_t> written_bytes = 0;
  std::atomic<std::uint64_t> written_blocks = 0;
  std::atomic<std::uint64_t> dropped_blocks = 0;

  std::vector<std::thread> threads;
};

void RemoteStore::Impl::RunWriter() {
  RedisConnection connection(options.address, stop);
  std::unique_lock lock(mutex);
  while (true) {
    if (queued_bytes == 0) {
      idle.notify_all();
    }
    work.wait(lock, [this] { return stopping || !queue.empty(); });
    if (queue.empty()) {
      return;
    }
    Segment segment = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    const std::uint64_t bytes = segment.ContentBytes();
    WriteOne(connection, std::move(segment));
    lock.lock();
    queued_bytes -= bytes;
    lock.unlock();
    wake();
    lock.lock();
  }
}

// False when the store is to go meanwhile.
bool RemoteStore::Impl::WaitWhileDown() {
  std::unique_lock lock(mutex);
  while (health.WritesArePaused() && !stopping) {
    idle.notify_all();
    work.wait_for(lock, kLookAgain);
  }
  return !stopping || (!health.WritesArePaused() && SteadyClock::now() < give_up_at);
}

void RemoteStore::Impl::WriteOne(RedisConnection& connection, Segment segment) {
  const std::size_t n_blocks = segment.blocks.size();
  std::vector<Value> values;
  BlockKey parent = segment.parent;
  std::int64_t index = segment.first_block;
  for (BlockContent& block : segment.blocks) {
    for (std::size_t g = 0; g < block.groups.size(); ++g) {
      if (!block.groups[g].empty()) {
        values.push_back({.name = KvValueName(spec, block.key, g),
                          .content = EncodeKvValue(spec, parent, index, block, g)});
      }
    }
    parent = block.key;
    ++index;
  }
  for (int tries = 0; tries < kWriteTries && WaitWhileDown(); ++tries) {
    if (TryWrite(connection, values)) {
      written_blocks += n_blocks;
      return;
    }
  }
  dropped_blocks += n_blocks;
}

// Writes the values that are not there, in order, and takes them out of `values`; false when one
// could not be.
bool RemoteStore::Impl::TryWrite(RedisConnection& connection, std::vector<Value>& values) {
  std::vector<std::string> names;
  for (const Value& value : values) {
    names.push_back(value.name);
  }
  const RedisResult<std::vector<bool>> there = AskForValues(connection, options, names);
  if (!there) {
    health.NoteFailure(there.error());
    return false;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Value& value = values[i];
    if ((*there)[i]) {
      continue;
    }
    const RedisCommand command = options.ttl.count() == 0
                                     ? RedisCommand{"SET", value.name, value.content}
                                     : RedisCommand{"SET", value.name, value.content, "EX", ttl};
    const auto replies = connection.Run(
        {command}, options.timeout + TimeFor(value.content.size()), kReplyBytes);
    if (!replies) {
      health.NoteFailure(replies.error());
      return false;
    }
    if (replies->front().kind != RedisReply::Kind::kStatus) {
      health.NoteRefusedWrite(replies->front().text);
      return false;
    }
    health.NoteAnswer();
    written_bytes += value.content.size();
  }
  return true;
}

RemoteStore::RemoteStore(RemoteOptions options, std::function<void()> wake)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(wake))) {
  impl_->threads.emplace_back([this] { impl_->lookups.Run(); });
  impl_->threads.emplace_back([this] { impl_->RunWriter(); });
  for (int i = 0; i < kReaders; ++i) {
    impl_->threads.emplace_back([this] { impl_->reads.RunReader(); });
  }
}

RemoteStore::~RemoteStore() {
  impl_->reads.Stop();
  impl_->lookups.Stop();
  {
    std::unique_lock lock(impl_->mutex);
    impl_->stopping = true;
    impl_->give_up_at = SteadyClock::now() + kFarewell;
    impl_->work.notify_all();
    impl_->idle.wait_until(lock, impl_->give_up_at, [this] { return impl_->queued_bytes == 0; });
  }
  impl_->stop = true;
  for (std::thread& thread : impl_->threads) {
    thread.join();
  }
}

std::optional<RemoteStore::LookupId> RemoteStore::StartLookup(std::vector<WantedBlock> blocks,
                                                              GroupMask needed) {
  return impl_->lookups.Start(std::move(blocks), needed);
}

std::optional<std::vector<GroupMask>> RemoteStore::TakeLookup(LookupId id) {
  return impl_->lookups.Take(id);
}

void RemoteStore::EndLookup(LookupId id) { impl_->lookups.End(id); }

bool RemoteStore::HasRoom(std::uint64_t bytes) const {
  if (impl_->health.WritesArePaused()) {
    return false;
  }
  const std::lock_guard lock(impl_->mutex);
  return impl_->queued_bytes == 0 ||
         impl_->queued_bytes + bytes <= impl_->options.write_queue_bytes;
}

bool RemoteStore::Write(Segment segment) {
  const std::uint64_t bytes = segment.ContentBytes();
  if (!HasRoom(bytes)) {
    impl_->dropped_blocks += segment.blocks.size();
    return false;
  }
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->queued_bytes += bytes;
    impl_->queue.push_back(std::move(segment));
  }
  impl_->work.notify_all();
  return true;
}

void RemoteStore::CountDropped(std::uint64_t blocks) { impl_->dropped_blocks += blocks; }

ReadId RemoteStore::StartRead(std::vector<WantedBlock> wanted) {
  return impl_->reads.Start(std::move(wanted));
}

ReadProgress RemoteStore::TakeRead(ReadId id) { return impl_->reads.Take(id); }

void RemoteStore::Recycle(BlockRead block) { impl_->reads.Recycle(std::move(block)); }

void RemoteStore::EndRead(ReadId id) { impl_->reads.End(id); }

void RemoteStore::WaitUntilIdle() {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait(lock, [this] {
    return impl_->queued_bytes == 0 || impl_->health.WritesArePaused();
  });
}

RemoteStats RemoteStore::stats() const {
  RemoteStats stats;
  stats.server = impl_->options.address.Label();
  stats.available = impl_->health.has_answered();
  stats.lookups = impl_->lookups.lookups();
  stats.found_blocks = impl_->lookups.found_blocks();
  {
    const std::lock_guard lock(impl_->mutex);
    stats.queued_bytes = impl_->queued_bytes;
  }
  const BlockReads::Totals reads = impl_->reads.totals();
  stats.staged_bytes = reads.staged_bytes;
  stats.read_bytes = reads.read_bytes;
  stats.read_blocks = reads.read_blocks;
  stats.written_bytes = impl_->written_bytes;
  stats.written_blocks = impl_->written_blocks;
  stats.dropped_blocks = impl_->dropped_blocks;
  stats.missing_blocks = impl_->source.missing_blocks();
  stats.damaged_blocks = impl_->source.damaged_blocks();
  stats.timeouts = impl_->health.timeouts();
  stats.errors = impl_->health.errors();
  return stats;
}

}  // namespace cache
