#include "app/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>

#include "app/setting_sources.h"
#include "app/settings.h"

namespace app {
namespace {

constexpr int kUsageError = 2;  // as argparse and getopt programs

// One command while the line is parsed. Settings write into `options`.
struct Command {
  std::string name;
  std::string help;
  Options options;
  std::vector<Setting> settings = {};
  CLI::App* parser = nullptr;
  std::map<std::string, CLI::Option*> flags = {};
};

using Commands = std::array<Command, 8>;

Commands MakeCommands() {
  return {{
      {.name = "serve", .help = "Serve a model over HTTP", .options = ServeOptions{}},
      {.name = "chat", .help = "Talk to a model in the terminal", .options = ChatOptions{}},
      {.name = "models", .help = "List the models on this machine", .options = ModelsOptions{}},
      {.name = "bench", .help = "Measure a model's speed", .options = BenchOptions{}},
      {.name = "parse",
       .help = "Show what a client would get of a model's text (JSON lines from stdin)",
       .options = ParseOptions{}},
      {.name = "selftest",
       .help = "Prove that reuse is exact with a model on this machine",
       .options = SelftestOptions{}},
      {.name = "cache",
       .help = "Look after the prefixes that are kept on disk",
       .options = CacheOptions{}},
      {.name = "doctor",
       .help = "Measure this machine and say what slows it",
       .options = DoctorOptions{}},
  }};
}

CLI::Option* AddToParser(CLI::App& parser, const Setting& setting) {
  using Arity = Setting::Arity;
  CLI::Option* option = nullptr;
  if (setting.arity == Arity::kFlag) {
    option = parser.add_flag("--" + setting.name + setting.synonyms, setting.help);
  } else {
    const std::string dashes = setting.arity == Arity::kPositional ? "" : "--";
    option = parser.add_option(dashes + setting.name + setting.synonyms, CLI::callback_t(),
                               setting.help);
    option->type_name(setting.placeholder);
  }
  option->multi_option_policy(setting.arity == Arity::kList || setting.arity == Arity::kRepeated
                                  ? CLI::MultiOptionPolicy::TakeAll
                                  : CLI::MultiOptionPolicy::TakeLast);
  if (setting.arity == Arity::kList) {
    option->expected(1, CLI::detail::expected_max_vector_size)->allow_extra_args();
  } else if (setting.arity == Arity::kOptionalValue) {
    option->expected(0, 1);
  }
  if (setting.help.empty()) {
    option->group("");  // hidden
  }
  return option;
}

void SetUpParser(CLI::App& program, Commands& commands) {
  const std::string version = fmt::format("emberbank {}", EMBERBANK_VERSION);
  program.set_version_flag("--version", version, "Print the version and end");
  program.allow_extras();
  for (Command& command : commands) {
    command.settings =
        std::visit([](auto& options) { return SettingsOf(options); }, command.options);
    command.parser = program.add_subcommand(command.name, command.help);
    command.parser->set_version_flag("--version", version, "Print the version and end");
    command.parser->allow_extras();
    command.parser
        ->add_option("--config", CLI::callback_t(),
                     "TOML file with settings (default ~/.config/emberbank/config.toml)")
        ->type_name("FILE")
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    for (const Setting& setting : command.settings) {
      command.flags[setting.name] = AddToParser(*command.parser, setting);
    }
    command.parser->footer(
        "Each flag may also be set in the environment (EMBERBANK_MAX_TOKENS for --max-tokens) or "
        "in the file.");
  }
}

std::vector<std::string> FlagNames(const Command& command) {
  std::vector<std::string> names = {"--config", "--help", "--version"};
  for (const Setting& setting : command.settings) {
    if (setting.arity != Setting::Arity::kPositional) {
      names.push_back("--" + setting.name);
    }
  }
  return names;
}

// What the parser did not know.
std::optional<std::string> DescribeExtras(const Command& command) {
  const std::vector<std::string> extras = command.parser->remaining();
  if (extras.empty()) {
    return std::nullopt;
  }
  const auto flag =
      std::ranges::find_if(extras, [](const std::string& text) { return text.starts_with('-'); });
  if (flag == extras.end()) {
    return fmt::format("`emberbank {}` takes no further argument, got \"{}\".", command.name,
                       extras.front());
  }
  const std::string given = flag->substr(0, flag->find('='));
  const std::string nearest = NearestName(given, FlagNames(command));
  return nearest.empty()
             ? fmt::format("Unknown flag {}; see `emberbank {} --help`.", given, command.name)
             : fmt::format("Unknown flag {}; did you mean {}?", given, nearest);
}

std::string DescribeMissingCommand(const CLI::App& program, const Commands& commands) {
  std::string names;
  for (const Command& command : commands) {
    names += (names.empty() ? "" : ", ") + command.name;
  }
  const std::vector<std::string> extras = program.remaining();
  return extras.empty()
             ? fmt::format("A command is needed, one of {}; see `emberbank --help`.", names)
             : fmt::format("Unknown command \"{}\"; the commands are {}.", extras.front(), names);
}

SettingValues FromCommandLine(const Command& command) {
  SettingValues values;
  for (const auto& [name, option] : command.flags) {
    if (option->count() > 0) {
      values[name] = option->results();
      if (values[name].empty()) {
        values[name] = {""};
      }
    }
  }
  return values;
}

Result<void> Apply(const Command& command, const SettingValues& values) {
  for (const Setting& setting : command.settings) {
    if (const auto found = values.find(setting.name); found != values.end()) {
      if (Result<void> applied = setting.apply(found->second); !applied) {
        return applied;
      }
    }
  }
  return {};
}

bool Knows(const Command& command, const std::string& setting) {
  return command.flags.contains(setting);
}

// The file's settings for `command`; those of a table come before those at the top.
Result<SettingValues> FromFile(const std::filesystem::path& path, const Commands& commands,
                               const Command& command) {
  Result<std::map<std::string, SettingValues>> tables = ReadConfigFile(path);
  if (!tables) {
    return Fail(tables.error());
  }
  SettingValues values;
  for (const auto& [table, entries] : *tables) {  // "" comes first
    const auto* owner =
        std::ranges::find_if(commands, [&](const Command& each) { return each.name == table; });
    for (const auto& [name, inputs] : entries) {
      const bool known =
          owner != commands.end()
              ? Knows(*owner, name)
              : table.empty() && std::ranges::any_of(commands, [&](const Command& each) {
                  return Knows(each, name);
                });
      if (!known) {
        return Fail(ErrorCode::kInvalidRequest,
                    fmt::format("The configuration file {} has an unknown setting \"{}{}{}\".",
                                path.string(), table, table.empty() ? "" : ".", name));
      }
      if ((table.empty() || table == command.name) && Knows(command, name)) {
        values[name] = inputs;
      }
    }
  }
  return values;
}

// File, then environment, then command line: each overrides what came before.
Result<void> ApplySources(const Commands& commands, const Command& command,
                          const Environment& environment) {
  std::optional<std::filesystem::path> file = DefaultConfigFile(environment);
  if (const auto named = environment("EMBERBANK_CONFIG"); named && !named->empty()) {
    file = *named;
  }
  const CLI::Option* config = command.parser->get_option("--config");
  if (config->count() > 0) {
    file = config->results().back();
  }
  if (file) {
    const Result<SettingValues> values = FromFile(*file, commands, command);
    if (!values) {
      return Fail(values.error());
    }
    if (const Result<void> applied = Apply(command, *values); !applied) {
      return Fail(applied.error().code,
                  fmt::format("{} (in {})", applied.error().message, file->string()));
    }
  }
  for (const Setting& setting : command.settings) {
    const SettingValues values = FromEnvironment({setting}, environment);
    if (const Result<void> applied = Apply(command, values); !applied) {
      return Fail(applied.error().code, fmt::format("{} (in {})", applied.error().message,
                                                    EnvironmentName(setting.name)));
    }
  }
  return Apply(command, FromCommandLine(command));
}

Farewell UsageError(const std::string& sentence) {
  return {.exit_code = kUsageError, .text = "emberbank: " + sentence + "\n"};
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

std::variant<Options, Farewell> ParseCommandLine(const std::vector<std::string>& arguments,
                                                 const Environment& environment) {
  CLI::App program("Emberbank: a local LLM server for agents", "emberbank");
  Commands commands = MakeCommands();
  SetUpParser(program, commands);
  try {
    program.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& farewell) {  // --help, --version
    std::ostringstream text;
    program.exit(farewell, text, text);
    return Farewell{.exit_code = 0, .text = text.str()};
  } catch (const CLI::ParseError& error) {
    return UsageError(fmt::format("{}.", error.what()));
  }
  for (Command& command : commands) {
    if (!command.parser->parsed()) {
      continue;
    }
    if (const std::optional<std::string> extras = DescribeExtras(command)) {
      return UsageError(*extras);
    }
    if (const Result<void> applied = ApplySources(commands, command, environment); !applied) {
      return UsageError(applied.error().message);
    }
    return std::move(command.options);
  }
  return UsageError(DescribeMissingCommand(program, commands));
}

}  // namespace app
