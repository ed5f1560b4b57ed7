#include "cache/write_behind.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace cache {
namespace {

// A segment of this size is written at a disk's full speed, fsync included.
constexpr std::uint64_t kSegmentBytes = std::uint64_t{32} << 20U;
// How long a block waits for its followers: what a kill may cost.
constexpr double kRipeAfterMs = 1000;
// Followers of a block are noted right after it, but for those of other sequences in between.
constexpr int kLookAhead = 64;

}  // namespace

WriteBehind::WriteBehind(ops::BlockStore& blocks, Tier tier, LowerTier& store, const Clock& clock)
    : blocks_(blocks), tier_(tier), store_(store), clock_(clock) {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < blocks.groups().size(); ++g) {
    // Few blocks have a snapshot; one that has ends its segment (RunFrom).
    bytes += blocks.groups()[g].is_recurrent() ? 0 : blocks.BlockBytes(static_cast<int>(g));
  }
  max_blocks_ = std::clamp<std::size_t>(kSegmentBytes / std::max<std::uint64_t>(bytes, 1), 1,
                                        kMaxSegmentBlocks);
}

GroupMask WriteBehind::Missing(const RadixNode& node) const {
  GroupMask missing = 0;
  for (std::size_t g = 0; g < node.slots.size(); ++g) {
    const ops::LayerGroup& group = blocks_.groups()[g];
    const bool is_wanted =
        group.is_recurrent() ? node.slots[g].kept : group.window == 0 || node.slots[g].needs > 0;
    if (is_wanted && node.slots[g].block != ops::kNoBlock && (node.writes_to(tier_).written >> g & 1U) == 0) {
      missing |= 1U << g;
    }
  }
  return missing;
}

void WriteBehind::Note(RadixNode& node) {
  WriteState& state = node.writes_to(tier_);
  if (!state.unwritten && Missing(node) != 0) {
    state.noted = clock_.Now();
    state.unwritten = unwritten_.insert(unwritten_.end(), &node);
  }
}

void WriteBehind::SetDue(RadixNode& node) const {
  WriteState& state = node.writes_to(tier_);
  state.due = state.due || state.unwritten;
}

void WriteBehind::BeforeLoss(RadixNode& node) {
  if (!node.writes_to(tier_).unwritten) {
    return;
  }
  const std::vector<RadixNode*> alone = {&node};
  if (Missing(node) != 0) {
    if (store_.HasRoom(BytesOf(alone))) {
      Queue(alone);
      return;
    }
    store_.CountDropped(1);
  }
  Unlist(node);
}

void WriteBehind::ForgetWritten(RadixNode& node) const { node.writes_to(tier_).written = 0; }

void WriteBehind::NoteWritten(RadixNode& node, GroupMask groups) const {
  node.writes_to(tier_).written |= groups;
}

void WriteBehind::Unlist(RadixNode& node) {
  WriteState& state = node.writes_to(tier_);
  if (state.unwritten) {
    unwritten_.erase(*state.unwritten);
    state.unwritten.reset();
    state.due = false;
  }
}

// The listed nodes that follow one another from `first` on.
std::vector<RadixNode*> WriteBehind::RunFrom(std::list<RadixNode*>::iterator first) const {
  std::vector<RadixNode*> run = {*first};
  auto it = std::next(first);
  for (int looked = 0; it != unwritten_.end() && !IsFull(run) && looked < kLookAhead;
       ++it, ++looked) {
    if ((*it)->parent == run.back() && Missing(**it) != 0) {
      run.push_back(*it);
      looked = 0;
    }
  }
  return run;
}

bool WriteBehind::IsFull(const std::vector<RadixNode*>& run) const {
  return run.size() == max_blocks_ || BytesOf(run) >= kSegmentBytes;
}

bool WriteBehind::IsRipe(const std::vector<RadixNode*>& run, bool all) const {
  const WriteState& first = run.front()->writes_to(tier_);
  return all || IsFull(run) || run.back()->writes_to(tier_).due ||
         MillisecondsBetween(first.noted, clock_.Now()) >= kRipeAfterMs;
}

std::uint64_t WriteBehind::BytesOf(const std::vector<RadixNode*>& run) const {
  std::uint64_t bytes = 0;
  for (const RadixNode* node : run) {
    const GroupMask missing = Missing(*node);
    for (std::size_t g = 0; g < node->slots.size(); ++g) {
      bytes += (missing >> g & 1U) != 0 ? blocks_.BlockBytes(static_cast<int>(g)) : 0;
    }
  }
  return bytes;
}

void WriteBehind::Queue(const std::vector<RadixNode*>& run) {
  Segment segment{
      .parent = run.front()->parent_key, .first_block = run.front()->index, .blocks = {}};
  for (RadixNode* node : run) {
    const GroupMask missing = Missing(*node);
    BlockContent content{.key = node->key, .tokens = node->tokens, .groups = {}};
    content.groups.resize(node->slots.size());
    for (std::size_t g = 0; g < node->slots.size(); ++g) {
      if ((missing >> g & 1U) != 0) {
        content.groups[g].resize(blocks_.BlockBytes(static_cast<int>(g)));
        blocks_.CopyOut(static_cast<int>(g), node->slots[g].block, content.groups[g]);
      }
    }
    NoteWritten(*node, missing);
    Unlist(*node);
    segment.blocks.push_back(std::move(content));
  }
  store_.Write(std::move(segment));
}

bool WriteBehind::QueueRuns(bool all) {
  std::list<RadixNode*>::iterator it = unwritten_.begin();
  while (it != unwritten_.end()) {
    if (Missing(**it) == 0) {  // its need has gone
      RadixNode& node = **it;
      ++it;
      Unlist(node);
      continue;
    }
    const std::vector<RadixNode*> run = RunFrom(it);
    if (!IsRipe(run, all)) {
      ++it;
      continue;
    }
    if (!store_.HasRoom(BytesOf(run))) {
      return false;
    }
    do {
      ++it;
    } while (it != unwritten_.end() && std::ranges::find(run, *it) != run.end());
    Queue(run);
  }
  return true;
}

void WriteBehind::Flush() { (void)QueueRuns(/*all=*/false); }

void WriteBehind::FlushAll(std::chrono::milliseconds patience) {
  // The disk's own threads make room, whatever the injected clock says.
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!QueueRuns(/*all=*/true) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace cache
