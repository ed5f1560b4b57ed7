#include "cache/block_reads.h"

#include <algorithm>
#include <utility>

namespace cache {
namespace {

// A run is read by one thread: small enough that several share a long prompt and that the first
// blocks reach memory while the others are still on their way, large enough for a disk's full
// speed.
constexpr std::uint64_t kRunBytes = std::uint64_t{16} << 20U;

}  // namespace

BlockReads::BlockReads(BlockSource& source, std::vector<std::uint64_t> group_bytes,
                       std::uint64_t read_ahead_bytes, const std::function<void()>& wake)
    : source_(source),
      group_bytes_(std::move(group_bytes)),
      read_ahead_bytes_(read_ahead_bytes),
      wake_(wake) {}

std::uint64_t BlockReads::BytesOf(const BlockRead& block) const {
  std::uint64_t bytes = 0;
  for (const std::vector<std::byte>& group : block.groups) {
    bytes += group.size();
  }
  return bytes;
}

std::uint64_t BlockReads::BytesOf(const WantedBlock& block) const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < group_bytes_.size(); ++g) {
    bytes += (block.groups >> g & 1U) != 0 ? group_bytes_[g] : 0;
  }
  return bytes;
}

ReadId BlockReads::Start(std::vector<WantedBlock> wanted) {
  ReadId id = 0;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
    reads_[id] = {.arrived = {}, .next = 0, .end = wanted.size(), .wanted = wanted.size()};
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const std::uint64_t bytes = BytesOf(wanted[i]);
      if (i == 0 || runs_.back().bytes + bytes > kRunBytes) {
        runs_.push_back({.read = id, .begin = i, .end = i, .bytes = 0, .wanted = {}});
      }
      Run& run = runs_.back();
      run.end = i + 1;
      run.bytes += bytes;
      run.wanted.push_back(wanted[i]);
    }
  }
  work_.notify_all();
  return id;
}

ReadProgress BlockReads::Take(ReadId id) {
  ReadProgress progress;
  {
    const std::lock_guard lock(mutex_);
    Read& read = reads_.at(id);
    while (!read.arrived.empty() && read.arrived.begin()->first == read.next &&
           read.next < read.end) {
      BlockRead& block = read.arrived.begin()->second;
      totals_.staged_bytes -= BytesOf(block);
      progress.blocks.push_back(std::move(block));
      read.arrived.erase(read.arrived.begin());
      ++read.next;
    }
    progress.ended = read.next >= read.end;
    progress.failed = read.end < read.wanted;
  }
  work_.notify_all();
  return progress;
}

void BlockReads::Recycle(BlockRead block) {
  const std::lock_guard lock(mutex_);
  std::uint64_t kept = 0;
  for (const std::vector<std::byte>& buffer : spare_) {
    kept += buffer.size();
  }
  for (std::vector<std::byte>& buffer : block.groups) {
    if (!buffer.empty() && !reads_.empty() && kept + buffer.size() <= read_ahead_bytes_) {
      kept += buffer.size();
      spare_.push_back(std::move(buffer));
    }
  }
}

std::vector<std::byte> BlockReads::Buffer(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto fits = std::ranges::find_if(
        spare_, [bytes](const std::vector<std::byte>& buffer) { return buffer.size() == bytes; });
    if (fits != spare_.end()) {
      std::vector<std::byte> buffer = std::move(*fits);
      spare_.erase(fits);
      return buffer;
    }
  }
  return std::vector<std::byte>(bytes);
}

void BlockReads::End(ReadId id) {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [place, block] : reads_.at(id).arrived) {
      totals_.staged_bytes -= BytesOf(block);
    }
    reads_.erase(id);
    std::erase_if(runs_, [id](const Run& run) { return run.read == id; });
    if (reads_.empty()) {
      spare_.clear();
    }
  }
  work_.notify_all();
}

void BlockReads::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
}

void BlockReads::RunReader() {
  std::unique_lock lock(mutex_);
  while (true) {
    // A run may be larger than the limit: alone it may always start.
    work_.wait(lock, [this] {
      return stopping_ ||
             (!runs_.empty() &&
              (totals_.staged_bytes == 0 || totals_.staged_bytes + runs_.front().bytes <= read_ahead_bytes_));
    });
    if (stopping_) {
      return;
    }
    const Run run = std::move(runs_.front());
    runs_.pop_front();
    totals_.staged_bytes += run.bytes;
    lock.unlock();
    DoRun(run);
    lock.lock();
  }
}

// Hands each block over as soon as it is read: what had been counted for the run stays counted for
// the blocks that came of it.
void BlockReads::DoRun(const Run& run) {
  const std::unique_ptr<BlockSource::Session> session = source_.Open();
  const TakeBuffer buffers = [this](std::uint64_t bytes) { return Buffer(bytes); };
  for (std::size_t i = run.begin; i < run.end; ++i) {
    std::optional<BlockRead> block = session->ReadBlock(run.wanted[i - run.begin], buffers);
    bool is_over = false;
    {
      const std::lock_guard lock(mutex_);
      const auto read = reads_.find(run.read);
      const std::uint64_t bytes = BytesOf(run.wanted[i - run.begin]);
      if (read != reads_.end() && block) {
        block->wanted = i;
        totals_.read_bytes += bytes;
        ++totals_.read_blocks;
        read->second.arrived[i] = std::move(*block);
      } else {
        for (std::size_t rest = i; rest < run.end; ++rest) {
          totals_.staged_bytes -= BytesOf(run.wanted[rest - run.begin]);
        }
        is_over = true;
        if (read != reads_.end()) {
          read->second.end = std::min(read->second.end, i);
        }
      }
    }
    if (is_over) {
      work_.notify_all();
      break;
    }
    if (i + 1 < run.end) {
      wake_();
    }
  }
  wake_();
}

BlockReads::Totals BlockReads::totals() const {
  const std::lock_guard lock(mutex_);
  return totals_;
}

}  // namespace cache
