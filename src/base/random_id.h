#pragma once

#include <cstddef>
#include <string>

// `length` random letters and digits. Not for secrets.
[[nodiscard]] std::string RandomId(std::size_t length);
