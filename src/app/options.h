#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "cache/remote_options.h"

namespace app {

// `emberbank serve`. Each field is the flag of the same name.
struct ServeOptions {
  std::string model;  // path or name; empty: the only one that is found
  std::string host = "127.0.0.1";
  int port = 8000;                    // 0: a free one
  std::string served_model_name;      // empty: the directory's or file's name
  std::vector<std::string> api_keys;  // empty: nobody is asked for one
  int prefill_step_size = 512;        // tokens per step
  int max_num_seqs = 16;              // sequences computed together
  int max_queue = 256;                // sequences waiting beyond them
  int max_tokens = 0;                 // of a reply, where the request says nothing; 0: what fits
  std::int64_t context_length = 0;    // tokens; 0: the model's own
  bool prefix_cache = true;
  bool repetition_guard = true;         // replies that loop without end are ended
  std::string tool_call_parser;         // wire format; empty or "auto": the template's
  std::string reasoning_parser;         // the same, where the first is not given
  bool auto_tool_choice = true;         // always
  bool ssd_cache = true;                // prefixes on disk too
  std::string ssd_cache_dir;            // empty: the platform's cache directory
  double ssd_cache_max_gb = 0;          // GiB of all of that directory; 0: a tenth of the free disk
  std::optional<cache::RedisAddress> cache_remote = {};  // the shared tier's server
  std::int64_t cache_remote_ttl_s = 604'800;     // of a block since its last use; 0: for ever
  std::int64_t cache_remote_timeout_ms = 500;    // of its answers
  double cache_memory_percent = 40.0;   // of the memory that the weights leave
  std::uint64_t cache_memory_mb = 0;    // MiB for K and V; 0: by percent
  int kv_bits = 16;                     // 32, 16, 8 or 4
  int threads = 0;                      // 0: physical cores
  double timeout_s = 0;                 // of a whole generation; 0: none
  std::uint64_t max_request_bytes = 0;  // of a body; 0: the server's default
  std::string log_level = "info";
  std::optional<double> temperature = {};  // sampling where the request says nothing
  std::optional<double> top_p = {};
  std::optional<int> top_k = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};
  std::string script;  // JSON file to play instead of the model, for protocol tests
  // Flags given that do nothing yet ("--enable-mtp"), in the order of the table.
  std::vector<std::string> without_effect = {};
};

// `emberbank chat`.
struct ChatOptions {
  std::string model;  // served in this process; empty with `url`
  std::string url;    // http://host:port of a server that runs
  std::string system;
  std::string api_key;
  std::optional<double> temperature = {};
  int max_tokens = 0;  // 0: the server's default
  int threads = 0;     // 0: physical cores
  std::int64_t context_length = 0;
};

// `emberbank models`.
struct ModelsOptions {
  bool json = false;
};

// `emberbank bench`.
struct BenchOptions {
  std::string model;
  int prefill = 512;
  int decode = 64;
  std::vector<int> depths = {0, 4096};
  std::vector<int> parallel = {1, 4, 8};
  int threads = 0;  // 0: physical cores
  int repeat = 3;
  int kv_bits = 16;
  bool json = false;
};

// `emberbank parse`.
struct ParseOptions {
  std::string format;  // empty: as each line says
};

// `emberbank selftest`.
struct SelftestOptions {
  std::string model;
  std::vector<int> kv_bits;  // empty: every K/V type
  int lives = 4;             // restarts of each
  int seed = 1;
  int threads = 0;  // 0: physical cores
};

// `emberbank cache`.
struct CacheOptions {
  std::string action;                           // ls, stats, gc, verify, clear, export, import
  std::string target;                           // directory of export and import
  std::string ssd_cache_dir;                    // empty: the platform's cache directory
  std::optional<double> ssd_cache_max_gb = {};  // of gc, GiB; nothing: a tenth of the free disk
  std::string model;                            // name or start of a fingerprint; empty: all
  bool dry_run = false;                         // say what would go
  bool json = false;
};

using Options = std::variant<ServeOptions, ChatOptions, ModelsOptions, BenchOptions, ParseOptions,
                             SelftestOptions, CacheOptions>;

// Nothing to run: what to print, and the exit code (0: to stdout, else to stderr).
struct Farewell {
  int exit_code = 0;
  std::string text;
};

// Value of an environment variable, or nothing.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
[[nodiscard]] Environment ProcessEnvironment();

// `arguments` are those after the program's name. A setting comes from the command line, else from
// the environment (EMBERBANK_MAX_TOKENS for --max-tokens), else from the file (--config, else
// ~/.config/emberbank/config.toml where there is one), else it has its default.
[[nodiscard]] std::variant<Options, Farewell> ParseCommandLine(
    const std::vector<std::string>& arguments, const Environment& environment);

}  // namespace app
