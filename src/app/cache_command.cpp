#include "app/cache_command.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/cache_directory.h"
#include "app/print.h"
#include "app/progress.h"
#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"
#include "cache/ssd_admin.h"

namespace app {
namespace {

using cache::SsdAdmin;

constexpr std::size_t kShownFingerprint = 12;  // digits

// What an action found or did: for programs and for people.
struct Outcome {
  Json json;
  std::string text;
  bool good = true;
};

struct Directory {
  FileSystem& files;
  std::filesystem::path path;
  SsdAdmin admin;
};

std::string Utc(cache::SsdIndex::Time time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)));
}

std::string NameOf(const SsdAdmin::Namespace& space) {
  if (!space.model.empty()) {
    return space.model;
  }
  return space.folder == cache::kDamagedFolder ? "(damaged files)" : "(unknown model)";
}

std::uint64_t Sum(const std::vector<SsdAdmin::Namespace>& spaces,
                  std::uint64_t SsdAdmin::Namespace::* field) {
  std::uint64_t sum = 0;
  for (const SsdAdmin::Namespace& space : spaces) {
    sum += space.*field;
  }
  return sum;
}

Result<Outcome> List(Directory& directory, const CacheOptions& options) {
  Outcome outcome{.json = Json::array(), .text = {}};
  for (const SsdAdmin::Namespace& space : directory.admin.Namespaces(options.model)) {
    outcome.json.push_back({{"model", space.model},
                            {"fingerprint", space.folder},
                            {"files", space.files},
                            {"blocks", space.blocks},
                            {"bytes", space.bytes},
                            {"last_use", Utc(space.last_use)}});
    outcome.text +=
        fmt::format("{:<32} {:<12} {:>10} {:>7} blocks {:>6} files  {}\n", NameOf(space),
                    space.folder.substr(0, kShownFingerprint), FormatBytes(space.bytes),
                    space.blocks, space.files, Utc(space.last_use));
  }
  if (outcome.text.empty()) {
    outcome.text = fmt::format("nothing is kept in {}\n", directory.path.string());
  }
  return outcome;
}

Result<Outcome> Stats(Directory& directory, const CacheOptions& options) {
  const std::vector<SsdAdmin::Namespace> spaces = directory.admin.Namespaces(options.model);
  const std::uint64_t free_bytes = directory.files.FreeBytes(directory.path).value_or(0);
  const auto models = static_cast<std::uint64_t>(std::ranges::count_if(
      spaces, [](const auto& space) { return space.folder != cache::kDamagedFolder; }));
  const Json json = {{"directory", directory.path.string()},
                     {"models", models},
                     {"files", Sum(spaces, &SsdAdmin::Namespace::files)},
                     {"blocks", Sum(spaces, &SsdAdmin::Namespace::blocks)},
                     {"bytes", Sum(spaces, &SsdAdmin::Namespace::bytes)},
                     {"free_bytes", free_bytes},
                     {"standard_budget_bytes", directory.admin.StandardBudget()},
                     {"wear_bytes", directory.admin.folder().Wear()}};
  const auto bytes = [&](const char* key) { return FormatBytes(json[key].get<std::uint64_t>()); };
  return Outcome{
      .json = json,
      .text = fmt::format("directory         {}\nmodels            {}\nfiles             {}\n"
                          "blocks            {}\nused              {}\nfree on disk      {}\n"
                          "standard budget   {}\never written      {}\n",
                          directory.path.string(), models, json["files"].get<std::uint64_t>(),
                          json["blocks"].get<std::uint64_t>(), bytes("bytes"), bytes("free_bytes"),
                          bytes("standard_budget_bytes"), bytes("wear_bytes"))};
}

Outcome Removal(std::uint64_t files, std::uint64_t bytes, bool dry_run) {
  return {.json = {{"files", files}, {"bytes", bytes}, {"dry_run", dry_run}},
          .text = fmt::format("{} {} files, {}\n", dry_run ? "would remove" : "removed", files,
                              FormatBytes(bytes))};
}

Result<Outcome> CollectGarbage(Directory& directory, const CacheOptions& options) {
  if (!options.model.empty()) {
    return Fail(ErrorCode::kInvalidRequest,
                "gc works on the whole directory; `clear --model` drops one model's part.");
  }
  constexpr double kGib = 1 << 30U;
  const std::uint64_t budget = options.ssd_cache_max_gb
                                   ? static_cast<std::uint64_t>(*options.ssd_cache_max_gb * kGib)
                                   : directory.admin.StandardBudget();
  const std::vector<SsdAdmin::FileName> garbage = directory.admin.Garbage(budget);
  std::uint64_t bytes = 0;
  for (const SsdAdmin::FileName& file : garbage) {
    bytes += file.bytes;
  }
  const std::uint64_t files = options.dry_run ? garbage.size() : directory.admin.Remove(garbage);
  return Removal(files, bytes, options.dry_run);
}

Result<Outcome> Clear(Directory& directory, const CacheOptions& options) {
  const std::vector<SsdAdmin::Namespace> spaces = directory.admin.Namespaces(options.model);
  for (const SsdAdmin::Namespace& space : spaces) {
    if (!options.dry_run) {
      directory.admin.Clear(space);
    }
  }
  return Removal(Sum(spaces, &SsdAdmin::Namespace::files), Sum(spaces, &SsdAdmin::Namespace::bytes),
                 options.dry_run);
}

Outcome Report(const SsdAdmin::Checked& checked, std::string_view done) {
  Outcome outcome{.json = {{"files", checked.files},
                           {"bytes", checked.bytes},
                           {"damaged", checked.damaged},
                           {"unreadable", checked.unreadable}},
                  .text = {},
                  .good = checked.damaged.empty()};
  for (const std::string& line : checked.damaged) {
    outcome.text += fmt::format("damaged: {}\n", line);
  }
  for (const std::string& line : checked.unreadable) {
    outcome.text += fmt::format("not checked: {}\n", line);
  }
  outcome.text +=
      fmt::format("{} {} files, {}: {} damaged, {} could not be checked\n", done, checked.files,
                  FormatBytes(checked.bytes), checked.damaged.size(), checked.unreadable.size());
  return outcome;
}

Result<Outcome> Verify(Directory& directory, const CacheOptions& options) {
  Progress progress("verifying", /*quiet=*/false);
  return Report(directory.admin.Verify(directory.admin.Namespaces(options.model),
                                       /*set_aside=*/!options.dry_run,
                                       [&](double share) { progress.Report(share); }),
                "read");
}

Result<Outcome> CopyBetween(SsdAdmin& from, SsdAdmin& to, const std::string& model) {
  const IoResult<SsdAdmin::Checked> copied = [&] {
    Progress progress("copying", /*quiet=*/false);
    return from.CopyTo(to, from.Namespaces(model), [&](double share) { progress.Report(share); });
  }();
  if (!copied) {
    return Fail(ErrorCode::kInternal, copied.error().message);
  }
  return Report(*copied, "looked at");
}

// The directory that is written to, made where it is not there.
Result<void> Make(FileSystem& files, SsdAdmin& admin) {
  if (const IoResult<void> made = files.CreateDirectories(admin.folder().root()); !made) {
    return Fail(ErrorCode::kInternal, made.error().message);
  }
  if (const IoResult<void> listed = admin.List(); !listed) {
    return Fail(ErrorCode::kInternal, listed.error().message);
  }
  return {};
}

Result<Outcome> Export(Directory& directory, const CacheOptions& options) {
  SsdAdmin to(directory.files, options.target);
  if (Result<void> made = Make(directory.files, to); !made) {
    return Fail(made.error());
  }
  return CopyBetween(directory.admin, to, options.model);
}

Result<Outcome> Import(Directory& directory, const CacheOptions& options) {
  SsdAdmin from(directory.files, options.target);
  if (const IoResult<void> listed = from.List(); !listed) {
    return Fail(ErrorCode::kInvalidRequest, listed.error().message);
  }
  return CopyBetween(from, directory.admin, options.model);
}

struct Action {
  std::string_view name;
  bool needs_target = false;
  bool makes_directory = false;
  Result<Outcome> (*run)(Directory&, const CacheOptions&);
};

constexpr std::array kActions = {
    Action{.name = "ls", .run = List},
    Action{.name = "stats", .run = Stats},
    Action{.name = "gc", .run = CollectGarbage},
    Action{.name = "verify", .run = Verify},
    Action{.name = "clear", .run = Clear},
    Action{.name = "export", .needs_target = true, .run = Export},
    Action{.name = "import", .needs_target = true, .makes_directory = true, .run = Import},
};

Result<const Action*> FindAction(const CacheOptions& options) {
  const auto* const action = std::ranges::find(kActions, options.action, &Action::name);
  if (action == kActions.end()) {
    std::string names;
    for (const Action& each : kActions) {
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    }
    const std::string given =
        options.action.empty() ? "none was given" : fmt::format("got \"{}\"", options.action);
    return Fail(ErrorCode::kInvalidRequest,
                fmt::format("`emberbank cache` needs an action, one of {}; {}.", names, given));
  }
  if (action->needs_target == options.target.empty()) {
    return Fail(ErrorCode::kInvalidRequest,
                action->needs_target
                    ? fmt::format("`emberbank cache {}` needs a directory.", action->name)
                    : fmt::format("`emberbank cache {}` takes no further argument, got \"{}\".",
                                  action->name, options.target));
  }
  return action;
}

Result<Outcome> Run(const CacheOptions& options) {
  const Result<const Action*> action = FindAction(options);
  if (!action) {
    return Fail(action.error());
  }
  std::filesystem::path path = options.ssd_cache_dir;
  if (path.empty()) {
    const auto standard = DefaultCacheDirectory(ProcessEnvironment());
    if (!standard) {
      return Fail(ErrorCode::kInvalidRequest,
                  "No HOME says where the cache is; --ssd-cache-dir does.");
    }
    path = *standard;
  }
  const std::unique_ptr<FileSystem> files = MakeOsFileSystem();
  Directory directory{.files = *files, .path = path, .admin = SsdAdmin(*files, path)};
  if ((*action)->makes_directory) {
    if (Result<void> made = Make(*files, directory.admin); !made) {
      return Fail(made.error());
    }
  } else if (const IoResult<void> listed = directory.admin.List(); !listed) {
    return listed.error().kind == IoError::Kind::kNotFound
               ? Fail(ErrorCode::kInvalidRequest,
                      fmt::format("There is no cache directory {}.", path.string()))
               : Fail(ErrorCode::kInternal, listed.error().message);
  }
  return (*action)->run(directory, options);
}

}  // namespace

int RunCacheCommand(const CacheOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging("error");
  const Result<Outcome> outcome = Run(options);
  if (!outcome) {
    PrintTo(stderr, "emberbank: {}\n", outcome.error().message);
    return 1;
  }
  PrintTo(stdout, "{}", options.json ? DumpJson(outcome->json) + "\n" : outcome->text);
  return outcome->good ? 0 : 1;
}

}  // namespace app
