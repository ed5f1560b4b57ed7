#pragma once

#include "ops/cpu_features.h"
#include "ops/thread_pool.h"

namespace ops {

// What the machine can do at most, to hold the speed of models against: decoding reads all weights
// once a token, prefill multiplies.
struct MachineSpeed {
  double read_bytes_per_s = 0;  // from memory, not from the caches
  double int8_ops_per_s = 0;    // a multiplication and an addition are two, operands in registers
};

// Measures with all threads of the pool, about half a second; the best of several tries counts,
// since other programs can only slow them. Takes 256 MiB of memory for that time.
[[nodiscard]] MachineSpeed MeasureMachine(ThreadPool& pool, InstructionSet set);

}  // namespace ops
