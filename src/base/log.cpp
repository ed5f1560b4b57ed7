#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <string>

bool SetUpLogging(std::string_view level) {
  std::string name(level);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (name == "warn") {
    name = "warning";
  }
  const spdlog::level::level_enum value = spdlog::level::from_str(name);
  if (value == spdlog::level::off && name != "off") {
    return false;
  }
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("emberbank", sink);
  logger->set_level(value);
  logger->set_pattern("%H:%M:%S.%e %^%l%$ %v");
  spdlog::set_default_logger(std::move(logger));
  return true;
}
