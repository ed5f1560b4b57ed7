#pragma once

#include "ops/cpu_features.h"
#include "ops/thread_pool.h"

namespace ops {

// Which implementation an operation takes.
enum class KernelPath {
  kReference,  // plain MLX graph, float32 on the CPU; what Metal and CUDA run
  kNative,     // our CPU primitives
};

// Passed to every operation. Owned by the engine, outlives every array made with it.
struct Context {
  KernelPath path = KernelPath::kNative;
  InstructionSet instruction_set = InstructionSet::kPlain;  // kNative only
  ThreadPool* pool = nullptr;                               // kNative only; not owned
};

}  // namespace ops
