#include "cache/ssd_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/block_reads.h"
#include "cache/ssd_folder.h"
#include "cache/ssd_source.h"

namespace cache {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::seconds kListAgain{10};  // other processes change the folder too
// After a disk that is full or broken has refused a segment, others are dropped for so long.
constexpr std::chrono::seconds kPauseAfterError{10};
constexpr std::chrono::seconds kFarewell{10};  // for what is queued when the store goes
constexpr std::chrono::minutes kWarnAgain{1};
constexpr std::uint64_t kCountWearEvery = std::uint64_t{64} << 20U;
constexpr int kReaders = 2;  // one reads while the other checks

}  // namespace

struct SsdStore::Impl {
  Impl(SsdOptions store_options, FileSystem& file_system, std::function<void()> wake_caller)
      : options(std::move(store_options)),
        files(file_system),
        wake(std::move(wake_caller)),
        spec{.fingerprint = options.fingerprint, .group_bytes = options.group_bytes},
        folder(file_system, options.directory, options.fingerprint),
        source(file_system, folder, spec),
        reads(source, options.group_bytes, options.read_ahead_bytes, wake) {}

  // The writer's thread.
  void RunWriter();
  void Open();
  void WriteAbout();
  void WriteOne(const Segment& segment);
  [[nodiscard]] bool TryWrite(const Segment& segment, std::uint64_t bytes);
  void CountWear(std::uint64_t bytes, bool now);
  void Drop(const Segment& segment);
  void Complain(const std::string& message);

  const SsdOptions options;
  FileSystem& files;
  const std::function<void()> wake;
  const KvFileSpec spec;
  SsdFolder folder;
  SsdSource source;
  BlockReads reads;

  mutable std::mutex mutex;
  std::condition_variable work;  // for the writer
  std::condition_variable idle;
  // Guarded by mutex:
  std::deque<Segment> queue;
  std::uint64_t queued_bytes = 0;  // the one being written included
  bool writing = false;
  bool clear = false;
  bool stopping = false;
  bool ready = false;
  bool usable = false;
  std::uint64_t budget_bytes = 0;
  std::uint64_t wear_bytes = 0;
  SteadyClock::time_point give_up_at = SteadyClock::time_point::max();  // with stopping

  std::atomic<std::uint64_t> written_bytes = 0;
  std::atomic<std::uint64_t> written_blocks = 0;
  std::atomic<std::uint64_t> dropped_blocks = 0;
  std::atomic<std::uint64_t> write_errors = 0;

  // The writer's own.
  SteadyClock::time_point listed{};
  SteadyClock::time_point paused_until{};
  SteadyClock::time_point next_complaint{};
  std::uint64_t uncounted_wear = 0;

  std::vector<std::thread> threads;
};

void SsdStore::Impl::Open() {
  const IoResult<void> opened = folder.Open();
  std::uint64_t budget = options.budget_bytes;
  if (opened) {
    if (budget == 0) {
      const std::uint64_t used =
          folder.With([](const SsdIndex& index) { return index.used_bytes(); });
      budget = StandardSsdBudget(files.FreeBytes(options.directory).value_or(0), used);
    }
    WriteAbout();
    folder.MakeRoom(0, budget);
  } else {
    Complain(fmt::format("the disk cache is off: {}", opened.error().message));
  }
  listed = SteadyClock::now();
  const std::uint64_t wear = opened ? folder.AddWear(0) : 0;
  {
    const std::lock_guard lock(mutex);
    usable = opened.has_value();
    budget_bytes = budget;
    wear_bytes = wear;
    ready = true;
  }
  wake();
}

// For people and `emberbank cache`; nothing depends on it.
void SsdStore::Impl::WriteAbout() {
  const Json about = {{"model", options.model_name},
                      {"version", 1},
                      {"block_tokens", ops::kBlockTokens},
                      {"group_bytes", options.group_bytes}};
  (void)files.Update(folder.PathOf(folder.own(), "about.json"),
                     [&](std::string_view) { return DumpJson(about) + "\n"; });
}

void SsdStore::Impl::RunWriter() {
  Open();
  std::unique_lock lock(mutex);
  while (true) {
    if (queue.empty() && !clear) {
      idle.notify_all();
    }
    work.wait(lock, [this] { return stopping || clear || !queue.empty(); });
    if (clear) {
      lock.unlock();
      folder.Clear(folder.own());
      lock.lock();
      clear = false;
      continue;
    }
    if (queue.empty() || SteadyClock::now() > give_up_at) {
      break;
    }
    const Segment segment = std::move(queue.front());
    queue.pop_front();
    writing = true;
    lock.unlock();
    WriteOne(segment);
    lock.lock();
    writing = false;
    queued_bytes -= segment.ContentBytes();
    lock.unlock();
    wake();
    lock.lock();
  }
  for (const Segment& segment : queue) {
    Drop(segment);
  }
  lock.unlock();
  CountWear(0, /*now=*/true);
}

void SsdStore::Impl::WriteOne(const Segment& segment) {
  const KvFileName name = segment.Name();
  const std::uint64_t bytes = KvFileBytes(spec, name);
  const SteadyClock::time_point now = SteadyClock::now();
  bool can = false;
  {
    const std::lock_guard lock(mutex);
    can = usable && bytes <= budget_bytes;
  }
  const bool is_there = folder.With([&](const SsdIndex& index) {
    return std::ranges::all_of(name.blocks, [&](const KvFileName::Block& block) {
      return (index.GroupsOf(block.tag) & block.groups) == block.groups;
    });
  });
  if (is_there) {
    return;
  }
  if (!can || now < paused_until || !TryWrite(segment, bytes)) {
    Drop(segment);
    return;
  }
  written_bytes += bytes;
  written_blocks += segment.blocks.size();
  CountWear(bytes, /*now=*/false);
}

bool SsdStore::Impl::TryWrite(const Segment& segment, std::uint64_t bytes) {
  const SteadyClock::time_point now = SteadyClock::now();
  if (now - listed > kListAgain) {
    listed = now;
    (void)folder.List();
  }
  if (!folder.MakeRoom(bytes, budget_bytes)) {
    ++write_errors;
    Complain("the disk cache cannot make room: its old files cannot be removed");
    paused_until = now + kPauseAfterError;
    return false;
  }
  IoResult<void> written = folder.Write(spec, segment);
  if (!written && written.error().kind == IoError::Kind::kNoSpace) {
    // The disk is fuller than the budget knows: give back what the segment takes and try once more.
    const std::uint64_t used =
        folder.With([](const SsdIndex& index) { return index.used_bytes(); });
    if (used >= bytes && folder.MakeRoom(bytes, used)) {
      written = folder.Write(spec, segment);
    }
  }
  if (!written) {
    ++write_errors;
    Complain(fmt::format("the disk cache could not write: {}", written.error().message));
    paused_until = now + kPauseAfterError;
  }
  return written.has_value();
}

void SsdStore::Impl::CountWear(std::uint64_t bytes, bool now) {
  uncounted_wear += bytes;
  if (uncounted_wear >= kCountWearEvery || (now && uncounted_wear > 0)) {
    const std::uint64_t total = folder.AddWear(std::exchange(uncounted_wear, 0));
    const std::lock_guard lock(mutex);
    wear_bytes = total;
  }
}

void SsdStore::Impl::Drop(const Segment& segment) { dropped_blocks += segment.blocks.size(); }

// A broken disk would fill the log.
void SsdStore::Impl::Complain(const std::string& message) {
  const SteadyClock::time_point now = SteadyClock::now();
  if (now >= next_complaint) {
    spdlog::warn("[ssd cache] {}", message);
    next_complaint = now + kWarnAgain;
  }
}

SsdStore::SsdStore(SsdOptions options, FileSystem& files, std::function<void()> wake)
    : impl_(std::make_unique<Impl>(std::move(options), files, std::move(wake))) {
  impl_->threads.emplace_back([this] { impl_->RunWriter(); });
  for (int i = 0; i < kReaders; ++i) {
    impl_->threads.emplace_back([this] { impl_->reads.RunReader(); });
  }
}

SsdStore::~SsdStore() {
  impl_->reads.Stop();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->give_up_at = SteadyClock::now() + kFarewell;
  }
  impl_->work.notify_all();
  for (std::thread& thread : impl_->threads) {
    thread.join();
  }
}

bool SsdStore::ready() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->ready;
}

GroupMask SsdStore::GroupsOf(const BlockKey& key) const {
  return impl_->folder.With([&](const SsdIndex& index) { return index.GroupsOf(TagOf(key)); });
}

void SsdStore::NoteUse(const std::vector<BlockKey>& keys) {
  const SsdIndex::Time now = std::chrono::system_clock::now();
  impl_->folder.With([&](SsdIndex& index) {
    SsdIndex::FileId last = 0;
    for (const BlockKey& key : keys) {
      const std::optional<SsdIndex::Place> place = index.Find(TagOf(key), 0);
      if (place && place->file != last) {
        last = place->file;
        index.NoteUse(last, now);
      }
    }
  });
}

bool SsdStore::HasRoom(std::uint64_t bytes) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->queued_bytes == 0 ||
         impl_->queued_bytes + bytes <= impl_->options.write_queue_bytes;
}

bool SsdStore::Write(Segment segment) {
  const std::uint64_t bytes = segment.ContentBytes();
  if (!HasRoom(bytes)) {
    impl_->Drop(segment);
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

void SsdStore::CountDropped(std::uint64_t blocks) { impl_->dropped_blocks += blocks; }

ReadId SsdStore::StartRead(std::vector<WantedBlock> wanted) {
  return impl_->reads.Start(std::move(wanted));
}

ReadProgress SsdStore::TakeRead(ReadId id) { return impl_->reads.Take(id); }

void SsdStore::Recycle(BlockRead block) { impl_->reads.Recycle(std::move(block)); }

void SsdStore::EndRead(ReadId id) { impl_->reads.End(id); }

void SsdStore::Clear() {
  std::unique_lock lock(impl_->mutex);
  for (const Segment& segment : std::exchange(impl_->queue, {})) {
    impl_->queued_bytes -= segment.ContentBytes();
  }
  impl_->clear = true;
  impl_->work.notify_all();
  impl_->idle.wait(lock, [this] { return !impl_->clear && impl_->queue.empty(); });
}

void SsdStore::WaitUntilIdle() {
  std::unique_lock lock(impl_->mutex);
  impl_->idle.wait(lock, [this] {
    return impl_->ready && impl_->queue.empty() && !impl_->writing && !impl_->clear;
  });
}

SsdStats SsdStore::stats() const {
  SsdStats stats;
  {
    const std::lock_guard lock(impl_->mutex);
    stats.usable = impl_->usable;
    stats.ready = impl_->ready;
    stats.budget_bytes = impl_->budget_bytes;
    stats.queued_bytes = impl_->queued_bytes;
    stats.wear_bytes = impl_->wear_bytes;
  }
  impl_->folder.With([&](const SsdIndex& index) {
    stats.used_bytes = index.used_bytes();
    stats.files = index.files();
    stats.own_bytes = index.own_bytes();
    stats.own_blocks = index.own_blocks();
  });
  stats.written_bytes = impl_->written_bytes;
  stats.written_blocks = impl_->written_blocks;
  stats.dropped_blocks = impl_->dropped_blocks;
  stats.write_errors = impl_->write_errors;
  stats.evicted_files = impl_->folder.counters().evicted_files;
  stats.damaged_files = impl_->folder.counters().damaged_files;
  const BlockReads::Totals reads = impl_->reads.totals();
  stats.staged_bytes = reads.staged_bytes;
  stats.read_bytes = reads.read_bytes;
  stats.read_blocks = reads.read_blocks;
  stats.read_errors = impl_->source.read_errors();
  return stats;
}

}  // namespace cache
