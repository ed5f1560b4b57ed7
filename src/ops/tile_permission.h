#pragma once

namespace ops {

// Asks the kernel to let this process use AMX tile registers. False where it refuses or is none
// that could grant it.
[[nodiscard]] bool RequestTilePermission();

}  // namespace ops
