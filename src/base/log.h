#pragma once

#include <spdlog/spdlog.h>

#include <string_view>

// Logging goes through spdlog's default logger: spdlog::info("loaded {} in {} ms", name, ms).
// Prompts, replies and keys are never logged.

// Sets up the default logger: to stderr, `level` one of trace, debug, info, warning, error,
// critical, off. Returns false when the level is none of these (nothing is changed then).
[[nodiscard]] bool SetUpLogging(std::string_view level);
