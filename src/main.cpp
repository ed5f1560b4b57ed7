#include <cstdio>
#include <exception>
#include <string>
#include <variant>
#include <vector>

#include "app/bench_command.h"
#include "app/cache_command.h"
#include "app/chat_command.h"
#include "app/doctor_command.h"
#include "app/models_command.h"
#include "app/options.h"
#include "app/parse_command.h"
#include "app/selftest_command.h"
#include "app/serve_command.h"

namespace {

struct Run {
  int operator()(const app::ServeOptions& options) const { return app::RunServeCommand(options); }
  int operator()(const app::ChatOptions& options) const { return app::RunChatCommand(options); }
  int operator()(const app::BenchOptions& options) const { return app::RunBenchCommand(options); }
  int operator()(const app::ModelsOptions& options) const {
    return app::RunModelsCommand(options.json);
  }
  int operator()(const app::ParseOptions& options) const { return app::RunParseCommand(options); }
  int operator()(const app::SelftestOptions& options) const {
    return app::RunSelftestCommand(options);
  }
  int operator()(const app::CacheOptions& options) const { return app::RunCacheCommand(options); }
  int operator()(const app::DoctorOptions& options) const { return app::RunDoctorCommand(options); }
};

int RunCommand(const std::vector<std::string>& arguments) {
  const auto parsed = app::ParseCommandLine(arguments, app::ProcessEnvironment());
  if (const auto* farewell = std::get_if<app::Farewell>(&parsed)) {
    std::fputs(farewell->text.c_str(), farewell->exit_code == 0 ? stdout : stderr);
    return farewell->exit_code;
  }
  return std::visit(Run{}, std::get<app::Options>(parsed));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return RunCommand({argv + 1, argv + argc});
  } catch (const std::exception& failure) {  // out of memory, or of threads
    std::fprintf(stderr, "emberbank: %s\n", failure.what());
    return 1;
  }
}
