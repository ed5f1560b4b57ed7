#include "app/load_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ctime>
#include <future>
#include <optional>
#include <utility>

#include "app/cache_directory.h"
#include "app/model_choice.h"
#include "app/progress.h"
#include "app/script_file.h"
#include "base/bytes.h"
#include "base/log.h"
#include "models/model.h"
#include "scheduler/kv_need.h"

namespace app {
namespace {

constexpr std::int64_t kUnknownContextLength = 4096;
constexpr std::uint64_t kLeastOnTheWay = std::uint64_t{16} << 20U;

// What a model is served with, made step by step.
struct Making {
  const ServeOptions& options;
  const KernelChoice& kernels;
  const Clock& clock;
  FileSystem& files;
  bool quiet;
  ChosenModel chosen;
  model_files::ModelSource source;
  std::unique_ptr<api::ServedModel> served = std::make_unique<api::ServedModel>();
  std::optional<ScriptFile> script_file = {};  // with --script
  std::optional<engine::Script> script = {};   // the same in tokens
};

std::int64_t WantedContextLength(const Making& making) {
  const std::int64_t wanted = making.options.context_length;
  std::int64_t own = making.source.context_length;
  if (own <= 0) {
    own = wanted > 0 ? wanted : kUnknownContextLength;
    spdlog::warn("{} does not say how long its context is; {} tokens are used", making.source.name,
                 own);
  }
  if (wanted > own) {
    spdlog::warn("--context-length {} is more than the {} tokens of {}; {} are used", wanted, own,
                 making.source.name, own);
  }
  return wanted > 0 ? std::min(wanted, own) : own;
}

void AddNames(Making& making) {
  api::ServedModel& served = *making.served;
  served.name = making.options.served_model_name.empty() ? making.source.name
                                                         : making.options.served_model_name;
  std::vector<std::string> names = making.chosen.names;
  names.push_back(making.source.name);
  names.push_back(making.chosen.path.string());
  names.push_back(making.chosen.path.filename().string());
  names.push_back(std::filesystem::path(making.source.name).filename().string());
  for (std::string& name : names) {
    if (!name.empty() && name != served.name &&
        std::ranges::find(served.aliases, name) == served.aliases.end()) {
      served.aliases.push_back(std::move(name));
    }
  }
}

api::SamplingDefaults Defaults(const ServeOptions& options,
                               const model_files::GenerationDefaults& model) {
  api::SamplingDefaults defaults;
  defaults.temperature =
      options.temperature.value_or(model.temperature.value_or(defaults.temperature));
  defaults.top_p = options.top_p.value_or(model.top_p.value_or(defaults.top_p));
  defaults.top_k = options.top_k.value_or(model.top_k.value_or(defaults.top_k));
  defaults.min_p = options.min_p.value_or(model.min_p.value_or(defaults.min_p));
  defaults.repetition_penalty = options.repetition_penalty.value_or(
      model.repetition_penalty.value_or(defaults.repetition_penalty));
  return defaults;
}

// Does its post-processor add a token at the front?
bool AddsBos(const chat::Tokenizer& tokenizer) {
  const auto encode = [&](bool add_special) {
    return tokenizer.Encode("a", chat::Tokenizer::SpecialTokens::kParse, add_special);
  };
  const Result<std::vector<TokenId>> with = encode(true);
  const Result<std::vector<TokenId>> without = encode(false);
  return with && without && !with->empty() && !without->empty() &&
         with->front() != without->front();
}

// The wire format that a flag names, else that of the template.
void ChooseParser(Making& making) {
  api::ServedModel& served = *making.served;
  served.parser_format = &parsers::FormatOfTemplate(served.chat_template->source());
  for (const std::string& name :
       {making.options.reasoning_parser, making.options.tool_call_parser}) {
    if (name.empty() || name == "auto") {
      continue;
    }
    if (const parsers::ParserFormat* format = parsers::FindFormat(name); format != nullptr) {
      served.parser_format = format;
      continue;
    }
    // A command line written for another server has to start.
    std::string names;
    for (const parsers::ParserFormat* format : parsers::All()) {
      names += (names.empty() ? "" : ", ") + std::string(format->name);
    }
    spdlog::warn("there is no parser \"{}\" ({}); {} is used", name, names,
                 served.parser_format->name);
  }
  for (const std::string_view marker : served.parser_format->markers) {
    if (const TokenId token = served.tokenizer->Find(marker); token >= 0) {
      served.parser_markers.push_back(token);
    }
  }
}

Result<void> MakeText(Making& making) {
  api::ServedModel& served = *making.served;
  Result<std::shared_ptr<const chat::Tokenizer>> tokenizer =
      chat::Tokenizer::Load(making.source.tokenizer);
  if (!tokenizer) {
    return Fail(tokenizer.error());
  }
  served.tokenizer = std::move(*tokenizer);
  const models::ModelFamily* family = models::FindFamily(making.source.model_type);
  if (family == nullptr && !models::All().empty()) {
    family = models::All().front();  // of a script: any template does
  }
  Result<std::shared_ptr<const chat::ChatTemplate>> chat_template = chat::ChatTemplate::Load(
      making.source.tokenizer, family == nullptr ? "" : family->fallback_chat_template,
      served.tokenizer);
  if (!chat_template) {
    return Fail(chat_template.error());
  }
  served.chat_template = std::move(*chat_template);
  if (served.chat_template->is_fallback()) {
    spdlog::info("{} has no chat template of its own; that of its family is used",
                 making.source.name);
  }
  served.adds_bos = AddsBos(*served.tokenizer);
  ChooseParser(making);
  return {};
}

Result<void> MakeScript(Making& making) {
  api::ServedModel& served = *making.served;
  if (served.eos_ids.empty()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("{} names no end token, which a script needs.", making.source.name));
  }
  const ScriptFile& file = *making.script_file;
  engine::Script script{.tokens = {},
                        .eos = served.eos_ids.front(),
                        .vocab_size = served.tokenizer->vocab_size(),
                        .prefill_delay_s = file.prefill_delay_s,
                        .fails_at_end = file.fails_at_end};
  const int first = script.vocab_size - static_cast<int>(file.chunks.size());
  for (TokenId token = first; token < script.vocab_size; ++token) {
    script.tokens.push_back(token);
  }
  // Its end comes as a token too, unless it is cut.
  served.scripted_tokens = static_cast<int>(script.tokens.size()) + (file.ends_by_length ? 0 : 1);
  served.scripted_prompt_tail = file.prompt_tail;
  making.script = std::move(script);
  return {};
}

Result<std::unique_ptr<engine::Engine>> MakeEngine(const Making& making, Progress& progress) {
  if (making.script) {
    return engine::MakeScriptedEngine(*making.script);
  }
  const ServeOptions& options = making.options;
  return engine::LoadEngine(making.source,
                            {.path = making.kernels.path,
                             .instruction_set = making.kernels.instruction_set,
                             .threads = making.kernels.threads,
                             .kv_bits = options.kv_bits,
                             .kv_budget_bytes = options.cache_memory_mb << 20U,
                             .kv_budget_percent = options.cache_memory_percent,
                             .on_progress = [&](double share) { progress.Report(share); }});
}

// Where this model's prefixes are kept on disk; nothing where they are not.
std::optional<cache::SsdOptions> DiskOptions(const Making& making, engine::Engine& engine) {
  const ServeOptions& options = making.options;
  if (!options.ssd_cache || making.script) {
    return std::nullopt;
  }
  cache::SsdOptions disk;
  if (!options.ssd_cache_dir.empty()) {
    disk.directory = options.ssd_cache_dir;
  } else if (const auto standard = DefaultCacheDirectory(ProcessEnvironment())) {
    disk.directory = *standard;
  } else {
    spdlog::warn("no HOME says where to keep a disk cache; --ssd-cache-dir does");
    return std::nullopt;
  }
  constexpr double kGib = 1 << 30U;
  disk.budget_bytes = static_cast<std::uint64_t>(options.ssd_cache_max_gb * kGib);
  disk.fingerprint = engine.fingerprint();
  disk.model_name = making.served->name;
  // Blocks on their way to and from the disk are memory too: little beside a small budget.
  const std::uint64_t share = engine.blocks().budget_bytes() / 8;
  disk.write_queue_bytes = std::clamp(share, kLeastOnTheWay, disk.write_queue_bytes);
  disk.read_ahead_bytes = std::clamp(share, kLeastOnTheWay, disk.read_ahead_bytes);
  return disk;
}

// The server that shares this model's prefixes with other machines; nothing where there is none.
std::optional<cache::RemoteOptions> RemoteOptions(const Making& making, engine::Engine& engine) {
  const ServeOptions& options = making.options;
  if (!options.cache_remote || making.script) {
    return std::nullopt;
  }
  cache::RemoteOptions remote;
  remote.address = *options.cache_remote;
  remote.ttl = std::chrono::seconds(options.cache_remote_ttl_s);
  remote.timeout = std::chrono::milliseconds(options.cache_remote_timeout_ms);
  remote.fingerprint = engine.fingerprint();
  const std::uint64_t share = engine.blocks().budget_bytes() / 8;
  remote.write_queue_bytes = std::clamp(share, kLeastOnTheWay, remote.write_queue_bytes);
  remote.read_ahead_bytes = std::clamp(share, kLeastOnTheWay, remote.read_ahead_bytes);
  return remote;
}

std::unique_ptr<cache::PrefixCache> MakeCache(const Making& making, engine::Engine& engine,
                                              const scheduler::Scheduler::Wake& wake) {
  if (!making.options.prefix_cache) {
    return cache::MakeNaiveCache(engine.blocks());
  }
  cache::LowerTierOptions lower{.disk = DiskOptions(making, engine),
                                .remote = RemoteOptions(making, engine)};
  if (!lower.disk && !lower.remote) {
    return cache::MakeRadixCache(engine.blocks());
  }
  return cache::MakeRadixCache(engine.blocks(), std::move(lower), making.files, making.clock, wake);
}

// Starts the engine thread; lowers the context length to what the KV budget can hold.
Result<void> StartScheduler(Making& making) {
  api::ServedModel& served = *making.served;
  const ServeOptions& options = making.options;
  const std::int64_t wanted = served.context_length;
  std::int64_t fits = wanted;
  Result<std::unique_ptr<scheduler::Scheduler>> scheduler = [&] {
    Progress progress(fmt::format("loading {}", making.source.name), making.quiet);
    const auto make =
        [&](const scheduler::Scheduler::Wake& wake) -> Result<scheduler::Scheduler::Parts> {
      Result<std::unique_ptr<engine::Engine>> engine = MakeEngine(making, progress);
      if (!engine) {
        return Fail(engine.error());
      }
      ops::BlockStore& blocks = (*engine)->blocks();
      fits = scheduler::KvNeed(blocks).MaxTokens(blocks.budget_bytes(), wanted);
      std::unique_ptr<cache::PrefixCache> cache = MakeCache(making, **engine, wake);
      return scheduler::Scheduler::Parts{.engine = std::move(*engine), .cache = std::move(cache)};
    };
    return scheduler::Scheduler::Start({.max_num_seqs = options.max_num_seqs,
                                        .prefill_step_size = options.prefill_step_size,
                                        .max_queue = options.max_queue,
                                        .context_length = wanted,
                                        .repetition_guard = options.repetition_guard},
                                       making.clock, make);
  }();
  if (!scheduler) {
    return Fail(scheduler.error());
  }
  served.scheduler = std::move(*scheduler);
  const std::uint64_t budget = served.scheduler->facts().kv_budget_bytes;
  if (fits < 2) {  // a prompt token and one of a reply
    return Fail(ErrorCode::kOutOfMemory,
                fmt::format("The KV cache of {} cannot hold a single block of {}.",
                            FormatBytes(budget), making.source.name));
  }
  if (fits < wanted) {
    spdlog::warn(
        "the KV cache of {} holds {} tokens, fewer than the context length of {}: the context "
        "length is {} now; --cache-memory-mb gives it more memory",
        FormatBytes(budget), fits, wanted, fits);
    served.context_length = fits;
  }
  return {};
}

// Text and weights at once: a vocabulary of 260,000 tokens takes as long as a small model.
Result<void> MakeParts(Making& making) {
  std::future<Result<void>> text =
      std::async(std::launch::async, [&making] { return MakeText(making); });
  if (!making.options.script.empty()) {  // a script is played in tokens
    if (Result<void> made = text.get(); !made) {
      return made;
    }
    Result<void> made = MakeScript(making);
    return made ? StartScheduler(making) : made;
  }
  Result<void> started = StartScheduler(making);
  Result<void> made = text.get();
  return made ? started : made;
}

Result<Making> Open(const ServeOptions& options, const KernelChoice& kernels, const Clock& clock,
                    FileSystem& files, bool quiet) {
  Result<ChosenModel> chosen = ChooseModel(options.model);
  if (!chosen) {
    return Fail(chosen.error());
  }
  const bool scripted = !options.script.empty();
  Result<model_files::ModelSource> source =
      scripted ? OpenWithoutWeights(chosen->path) : model_files::OpenModel(chosen->path);
  if (!source) {
    return Fail(source.error());
  }
  if (!scripted && models::FindFamily(source->model_type) == nullptr) {
    return Fail(engine::LoadEngine(*source, {}).error());  // says which types there are
  }
  std::optional<ScriptFile> script_file;
  if (scripted) {
    Result<ScriptFile> read = ReadScript(options.script);
    if (!read) {
      return Fail(read.error());
    }
    source->tokenizer.extra_tokens = read->chunks;
    script_file = std::move(*read);
  }
  return Making{.options = options,
                .kernels = kernels,
                .clock = clock,
                .files = files,
                .quiet = quiet,
                .chosen = std::move(*chosen),
                .source = std::move(*source),
                .script_file = std::move(script_file)};
}

std::string DescribeSource(const model_files::ModelSource& source, const std::string& name) {
  return fmt::format("{} ({}, {}, {})", name, source.model_type,
                     source.quantization.empty() ? "no weights" : source.quantization,
                     FormatBytes(source.weight_bytes));
}

}  // namespace

Result<LoadedModel> LoadModel(const ServeOptions& options, const KernelChoice& kernels,
                              const Clock& clock, FileSystem& files, bool quiet) {
  Result<Making> making = Open(options, kernels, clock, files, quiet);
  if (!making) {
    return Fail(making.error());
  }
  api::ServedModel& served = *making->served;
  AddNames(*making);
  served.created = static_cast<std::int64_t>(std::time(nullptr));
  served.context_length = WantedContextLength(*making);
  served.default_max_tokens = options.max_tokens;
  served.bank_block_tokens = options.prefix_cache ? ops::kBlockTokens : 0;
  served.timeout = std::chrono::seconds(static_cast<std::int64_t>(std::ceil(options.timeout_s)));
  served.sampling = Defaults(options, making->source.generation_defaults);
  for (const std::int64_t id : making->source.eos_token_ids) {
    served.eos_ids.push_back(static_cast<TokenId>(id));
  }
  if (Result<void> made = MakeParts(*making); !made) {
    return Fail(made.error());
  }
  served.grammars = std::make_unique<chat::GrammarFactory>(served.tokenizer, served.eos_ids,
                                                           served.scheduler->facts().vocab_size);
  return LoadedModel{.served = std::move(making->served),
                     .description = DescribeSource(making->source, served.name)};
}

}  // namespace app
