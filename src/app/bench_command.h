#pragma once

#include "app/options.h"

namespace app {

// `emberbank bench`: measures prefill and decode on the engine itself and prints tokens per second,
// medians, under names such as prefill512@0, decode64@4096 and decode64x8@256. Random token ids, no
// sampling, logits of the last position only. Returns the exit status.
[[nodiscard]] int RunBenchCommand(const BenchOptions& options);

}  // namespace app
