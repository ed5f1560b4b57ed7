#include "cache/merged_read.h"

#include <algorithm>
#include <utility>

namespace cache {

MergedRead::MergedRead(const Stores& stores, std::vector<Wanted> wanted)
    : wanted_(std::move(wanted)), end_(wanted_.size()) {
  for (std::size_t t = 0; t < kLowerTiers; ++t) {
    Part& part = parts_[t];
    part.store = stores[t];
    std::vector<WantedBlock> blocks;
    for (std::size_t place = 0; place < wanted_.size(); ++place) {
      if (wanted_[place].groups[t] != 0) {
        part.places.push_back(place);
        blocks.push_back(wanted_[place].block);
        blocks.back().groups = wanted_[place].groups[t];
      }
    }
    if (!blocks.empty()) {
      part.id = part.store->StartRead(std::move(blocks));
    }
  }
}

MergedRead::~MergedRead() {
  for (const Part& part : parts_) {
    if (part.id) {
      part.store->EndRead(*part.id);
    }
  }
}

// Only tiers whose block is next: what comes early stays in their own, bounded memory.
ReadProgress MergedRead::Take() {
  ReadProgress progress;
  bool moves = true;
  while (std::exchange(moves, false)) {
    for (Part& part : parts_) {
      const std::size_t had = part.taken;
      if (had < part.places.size() && part.places[had] == next_) {
        TakeFrom(part);
        moves = moves || part.taken > had;
      }
    }
    for (; next_ < end_ && HasAll(next_); ++next_) {
      progress.blocks.push_back(std::move(arrived_.extract(next_).mapped()));
    }
  }
  progress.ended = next_ >= end_;
  progress.failed = end_ < wanted_.size();
  return progress;
}

void MergedRead::TakeFrom(Part& part) {
  ReadProgress progress = part.store->TakeRead(*part.id);
  for (BlockRead& read : progress.blocks) {
    const std::size_t place = part.places[part.taken++];
    BlockRead& block = arrived_[place];
    block.wanted = place;
    block.groups.resize(read.groups.size());
    for (std::size_t g = 0; g < read.groups.size(); ++g) {
      if (!read.groups[g].empty()) {
        block.groups[g] = std::move(read.groups[g]);
      }
    }
  }
  if (progress.ended && progress.failed) {
    end_ = std::min(end_, part.places[part.taken]);
  }
}

bool MergedRead::HasAll(std::size_t place) const {
  return std::ranges::all_of(parts_, [place](const Part& part) {
    const auto own = std::ranges::lower_bound(part.places, place);
    return own == part.places.end() || *own != place ||
           static_cast<std::size_t>(own - part.places.begin()) < part.taken;
  });
}

void MergedRead::Recycle(BlockRead block) {
  for (std::size_t t = 0; t < kLowerTiers; ++t) {
    BlockRead own{.wanted = block.wanted, .groups = {}};
    own.groups.resize(block.groups.size());
    for (std::size_t g = 0; g < block.groups.size(); ++g) {
      if ((wanted_[block.wanted].groups[t] >> g & 1U) != 0) {
        own.groups[g] = std::move(block.groups[g]);
      }
    }
    if (parts_[t].id) {
      parts_[t].store->Recycle(std::move(own));
    }
  }
}

}  // namespace cache
