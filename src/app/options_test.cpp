#include "app/options.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "app/setting_sources.h"
#include "app/settings.h"

namespace app {
namespace {

using Variables = std::map<std::string, std::string>;

std::variant<Options, Farewell> Parse(const std::vector<std::string>& arguments,
                                      const Variables& variables = {}) {
  return ParseCommandLine(arguments, [&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

template <class T>
T ParseAs(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  const std::variant<Options, Farewell> parsed = Parse(arguments, variables);
  if (const auto* farewell = std::get_if<Farewell>(&parsed)) {
    ADD_FAILURE() << farewell->text;
    return {};
  }
  return std::get<T>(std::get<Options>(parsed));
}

Farewell Refused(const std::vector<std::string>& arguments, const Variables& variables = {}) {
  const std::variant<Options, Farewell> parsed = Parse(arguments, variables);
  const auto* farewell = std::get_if<Farewell>(&parsed);
  EXPECT_NE(farewell, nullptr);
  return farewell == nullptr ? Farewell{} : *farewell;
}

std::string WriteFile(const std::string& name, const std::string& content) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << content;
  return path;
}

TEST(Options, TheCommandLineComesBeforeTheEnvironmentBeforeTheFileBeforeTheDefault) {
  const std::string file =
      WriteFile("precedence.toml", "port = 1\n[serve]\nmax_tokens = 1\nmax-num-seqs = 1\n");
  const Variables variables = {{"EMBERBANK_MAX_TOKENS", "2"}, {"EMBERBANK_MAX_NUM_SEQS", "2"}};
  const auto serve =
      ParseAs<ServeOptions>({"serve", "m", "--config", file, "--max-num-seqs", "3"}, variables);
  EXPECT_EQ(serve.model, "m");
  EXPECT_EQ(serve.port, 1);
  EXPECT_EQ(serve.max_tokens, 2);
  EXPECT_EQ(serve.max_num_seqs, 3);
  EXPECT_EQ(serve.max_queue, 256);
}

TEST(Options, AFlagOverridesItsOppositeFromALowerSource) {
  const auto serve = ParseAs<ServeOptions>({"serve", "m", "--enable-prefix-cache"},
                                           {{"EMBERBANK_DISABLE_PREFIX_CACHE", "1"}});
  EXPECT_TRUE(serve.prefix_cache);
  EXPECT_TRUE(serve.repetition_guard);
  EXPECT_FALSE(ParseAs<ServeOptions>({"serve", "m", "--no-repetition-guard"}).repetition_guard);
  EXPECT_FALSE(ParseAs<ServeOptions>({"serve", "m", "--disable-prefix-cache"}).prefix_cache);
}

TEST(Options, TheDefaultFileIsReadWhereThereIsOne) {
  const std::string home = testing::TempDir() + "/home";
  std::filesystem::create_directories(home + "/.config/emberbank");
  std::ofstream(home + "/.config/emberbank/config.toml") << "[serve]\nhost = \"::1\"\n";
  EXPECT_EQ(ParseAs<ServeOptions>({"serve"}, {{"HOME", home}}).host, "::1");
  EXPECT_EQ(ParseAs<ServeOptions>({"serve"}, {{"HOME", "/nowhere"}}).host, "127.0.0.1");
}

TEST(Options, ABadFileIsOneSentenceThatNamesIt) {
  const std::string odd = WriteFile("odd.toml", "[serve]\nprot = 3\n");
  for (const std::string& path :
       {odd, WriteFile("words.toml", "this is no setting\n"),
        WriteFile("value.toml", "port = \"high\"\n"), testing::TempDir() + "/missing.toml"}) {
    const Farewell farewell = Refused({"serve", "m", "--config", path});
    EXPECT_NE(farewell.exit_code, 0);
    EXPECT_NE(farewell.text.find(path), std::string::npos) << farewell.text;
    EXPECT_EQ(std::ranges::count(farewell.text, '\n'), 1) << farewell.text;
  }
}

TEST(Options, AValueOutOfItsLimitsIsRefusedWithFlagLimitAndValue) {
  const std::vector<std::vector<std::string>> cases = {
      {"--port", "65536", "65535"},         {"--port", "x", "65535"},
      {"--default-top-p", "1.5", "1"},      {"--max-num-seqs", "0", "1"},
      {"--default-temperature", "-1", "0"}, {"--kv-bits", "7", "16"},
      {"--log-level", "loud", "debug"},     {"--cache-memory-percent", "101", "100"},
  };
  for (const std::vector<std::string>& each : cases) {
    const Farewell farewell = Refused({"serve", "m", each[0], each[1]});
    EXPECT_EQ(farewell.exit_code, 2);
    for (const std::string& part : each) {
      EXPECT_NE(farewell.text.find(part), std::string::npos) << farewell.text;
    }
  }
  EXPECT_NE(Refused({"serve"}, {{"EMBERBANK_PORT", "-1"}}).text.find("EMBERBANK_PORT"),
            std::string::npos);
}

TEST(Options, AnUnknownFlagNamesTheNearest) {
  EXPECT_NE(Refused({"serve", "m", "--max-num-seq", "3"}).text.find("--max-num-seqs?"),
            std::string::npos);
  EXPECT_NE(Refused({"serve", "m", "--prot=3"}).text.find("--port?"), std::string::npos);
  EXPECT_EQ(NearestName("--zzzzzzzz", {"--port"}), "");
}

TEST(Options, OtherServersNamesOfAQuantisedKvCacheMeanTheSame) {
  EXPECT_EQ(ParseAs<ServeOptions>({"serve", "m"}).kv_bits, 16);
  EXPECT_EQ(ParseAs<ServeOptions>({"serve", "m", "--kv-cache-quantization"}).kv_bits, 8);
  EXPECT_EQ(ParseAs<ServeOptions>(
                {"serve", "m", "--kv-cache-quantization", "--kv-cache-quantization-bits", "4"})
                .kv_bits,
            4);
  EXPECT_NE(Refused({"serve", "m", "--kv-cache-quantization-bits", "16"}).text.find("8, 4"),
            std::string::npos);
}

TEST(Options, ACommandLineOfRapidMlxStartsAndSaysWhatHasNoEffect) {
  const auto serve = ParseAs<ServeOptions>({"serve",
                                            "qwen3.5-9b-4bit",
                                            "--port",
                                            "8010",
                                            "--max-num-seqs",
                                            "256",
                                            "--host",
                                            "0.0.0.0",
                                            "--kv-bits",
                                            "8",
                                            "--no-think",
                                            "-y",
                                            "--text-only",
                                            "--log-level",
                                            "DEBUG",
                                            "--timeout",
                                            "1800",
                                            "--cors-origins",
                                            "http://a",
                                            "http://b",
                                            "--kv-cache-turboquant",
                                            "--reasoning-parser",
                                            "qwen3",
                                            "--enable-auto-tool-choice",
                                            "--tool-call-parser",
                                            "hermes",
                                            "--prefill-step-size",
                                            "8192"});
  EXPECT_EQ(serve.model, "qwen3.5-9b-4bit");
  EXPECT_EQ(serve.port, 8010);
  EXPECT_EQ(serve.prefill_step_size, 8192);
  EXPECT_EQ(serve.log_level, "debug");
  EXPECT_EQ(serve.kv_bits, 8);
  const std::vector<std::string> quiet = {"--no-mllm", "--no-think", "--yes",
                                          "--kv-cache-turboquant", "--cors-origins"};
  EXPECT_EQ(serve.tool_call_parser, "hermes");
  EXPECT_EQ(serve.reasoning_parser, "qwen3");
  EXPECT_EQ(serve.without_effect, quiet);
}

TEST(Options, ACommandLineOfVllmMlxStarts) {
  const auto serve = ParseAs<ServeOptions>({"serve",
                                            "mlx-community/Qwen3-0.6B-8bit",
                                            "--continuous-batching",
                                            "--use-paged-cache",
                                            "--cache-memory-percent",
                                            "0.20",
                                            "--ssd-cache-dir",
                                            "/tmp/c",
                                            "--ssd-cache-max-gb",
                                            "10.0",
                                            "--max-kv-size",
                                            "32768",
                                            "--default-chat-template-kwargs",
                                            "{\"enable_thinking\": false}",
                                            "--timeout",
                                            "300",
                                            "--api-key",
                                            "one",
                                            "--stream-interval",
                                            "1"});
  EXPECT_EQ(serve.cache_memory_percent, 20.0);
  EXPECT_TRUE(serve.ssd_cache);
  EXPECT_EQ(serve.ssd_cache_dir, "/tmp/c");
  EXPECT_EQ(serve.ssd_cache_max_gb, 10.0);
  EXPECT_EQ(serve.timeout_s, 300);
  EXPECT_EQ(serve.api_keys, std::vector<std::string>{"one"});
  EXPECT_EQ(std::ranges::count(serve.without_effect, "--continuous-batching"), 0);
  EXPECT_EQ(std::ranges::count(serve.without_effect, "--max-kv-size"), 1);
}

TEST(Options, CountsOfHybridCacheEntriesAreExplained) {
  const auto serve = ParseAs<ServeOptions>({"serve", "model", "--hybrid-cache-entries", "8"});
  ASSERT_EQ(serve.without_effect, std::vector<std::string>{"--hybrid-cache-entries"});
  EXPECT_NE(SayWithoutEffect(serve.without_effect[0]).find("--cache-memory-mb"), std::string::npos);
  EXPECT_EQ(SayWithoutEffect("--mllm"), "--mllm is accepted but has no effect yet.");
}

TEST(Options, AFlagGivenTwiceTakesTheLastButKeysAdd) {
  const auto serve = ParseAs<ServeOptions>(
      {"serve", "--port", "1", "--api-key", "a", "--port", "2", "--api-key", "b", "m"});
  EXPECT_EQ(serve.port, 2);
  EXPECT_EQ(serve.api_keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(serve.model, "m");
}

TEST(Options, HelpAndVersionEndWellForEveryCommand) {
  for (const std::string command : {"", "serve", "chat", "models", "bench"}) {
    for (const std::string flag : {"--help", "--version"}) {
      std::vector<std::string> arguments = {flag};
      if (!command.empty()) {
        arguments.insert(arguments.begin(), command);
      }
      const Farewell farewell = Refused(arguments);
      EXPECT_EQ(farewell.exit_code, 0) << command << flag;
      EXPECT_NE(farewell.text.find(flag == "--help" ? "--help" : EMBERBANK_VERSION),
                std::string::npos);
    }
  }
  EXPECT_EQ(Refused({"serve", "--help"}).text.find("--dflash"), std::string::npos);
}

TEST(Options, BenchTakesListsOfNumbers) {
  const auto bench = ParseAs<BenchOptions>(
      {"bench", "m", "--depth", "0,128", "--parallel", "2", "--json", "--repeat", "1"});
  EXPECT_EQ(bench.depths, (std::vector<int>{0, 128}));
  EXPECT_EQ(bench.parallel, std::vector<int>{2});
  EXPECT_TRUE(bench.json);
  EXPECT_NE(Refused({"bench", "m", "--depth", "0,,1"}).text.find("--depth"), std::string::npos);
}

TEST(Options, AMissingOrUnknownCommandIsNamed) {
  EXPECT_NE(Refused({}).text.find("serve"), std::string::npos);
  EXPECT_NE(Refused({"sevre"}).text.find("sevre"), std::string::npos);
}

}  // namespace
}  // namespace app
