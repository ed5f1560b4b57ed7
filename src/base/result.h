#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

// A value or the Error that prevented it. g++ 12 has no std::expected; one line to change later.
template <class T>
using Result = tl::expected<T, Error>;

// The unexpected side of a Result: `return Fail(ErrorCode::kIo, fmt::format(...));`
[[nodiscard]] inline tl::unexpected<Error> Fail(ErrorCode code, std::string message,
                                                std::string param = {}) {
  return tl::unexpected<Error>(
      Error{.code = code, .message = std::move(message), .param = std::move(param)});
}

[[nodiscard]] inline tl::unexpected<Error> Fail(Error error) {
  return tl::unexpected<Error>(std::move(error));
}
