#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace app {

// fmt::print without its exception: a pipe that nobody reads any more, or a full disk, must not end
// a server that is only telling how far it is.
template <class... Args>
void PrintTo(std::FILE* to, fmt::format_string<Args...> text, Args&&... args) {
  (void)std::fputs(fmt::format(text, std::forward<Args>(args)...).c_str(), to);
}

}  // namespace app
