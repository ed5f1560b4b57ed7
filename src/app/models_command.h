#pragma once

namespace app {

// `emberbank models`: prints the models found on this machine (model_files/library.h) to stdout, as
// a table or, with `json`, as one JSON array of objects. Returns the exit code: 0, also when there
// are none.
[[nodiscard]] int RunModelsCommand(bool json);

}  // namespace app
