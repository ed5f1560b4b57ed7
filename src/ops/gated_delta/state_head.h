#pragma once

#include <cmath>
#include <cstddef>

#include "ops/gated_delta/kernels.h"
#include "ops/recurrent/state_runs.h"

namespace ops {

// log(1 + e^x); in double, to be rounded, so that the result does not depend on the C library.
inline double Softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}

// One head's state [k_dim][v_dim] through the rows of one sequence. `head`: n_columns is v_dim, the
// pointers are those of the step's first row and the head's first column; state and n_rows are
// filled in. `at_head`: floats from the layer's part of a block to the head's state.
// REQUIRES: k_dim <= kMaxKeyDim, v_dim a multiple of kDeltaLanes.
void RunStateHead(const DeltaKernels& kernels, const NativeStateRuns& sequence,
                  std::ptrdiff_t at_head, const DeltaRun& head);

}  // namespace ops
