#include "ops/recurrent/state_runs.h"

#include <algorithm>
#include <cassert>

namespace ops {

std::vector<StateRuns> RunsOf(const StepBatch& batch, int group) {
  std::vector<StateRuns> all;
  for (const SequenceRows& rows : batch.sequences) {
    const std::vector<BlockId>& table = rows.block_tables[static_cast<std::size_t>(group)];
    const auto block_at = [&](std::int64_t position) {
      return table[static_cast<std::size_t>(position / kBlockTokens)];
    };
    StateRuns& sequence = all.emplace_back();
    const std::int64_t end = rows.first_position + rows.n_tokens;
    if (rows.first_position > 0) {
      sequence.from = block_at(rows.first_position - 1);
      assert(sequence.from != kNoBlock && "the state before the step is not there");
    }
    for (std::int64_t p = rows.first_position; p < end;) {
      const std::int64_t stop = std::min(end, (p / kBlockTokens + 1) * kBlockTokens);
      sequence.runs.push_back(
          {.first_row = rows.first_row + static_cast<int>(p - rows.first_position),
           .n_rows = static_cast<int>(stop - p),
           .to = block_at(p)});
      p = stop;
    }
    assert(sequence.runs.back().to != kNoBlock && "the state after the step has no place");
  }
  return all;
}

std::vector<NativeStateRuns> NativeRunsOf(const StepBatch& batch, KvStore& store, int layer,
                                          int offset) {
  const KvStore::LayerPlace place = store.PlaceOf(layer);
  const auto address = [&](BlockId block) {
    return block == kNoBlock
               ? nullptr
               : reinterpret_cast<float*>(store.LayerData(place.group, block, place.index)) +
                     offset;
  };
  std::vector<NativeStateRuns> sequences;
  for (StateRuns& runs : RunsOf(batch, place.group)) {
    NativeStateRuns& sequence = sequences.emplace_back();
    sequence.from = address(runs.from);
    for (const StateRun& run : runs.runs) {
      sequence.to.push_back(address(run.to));
    }
    sequence.runs = std::move(runs.runs);
  }
  return sequences;
}

}  // namespace ops
