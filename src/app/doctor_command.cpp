#include "app/doctor_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "app/cache_directory.h"
#include "app/machine_facts.h"
#include "app/print.h"
#include "base/bytes.h"
#include "base/json.h"
#include "base/log.h"

namespace app {
namespace {

std::string YesNo(bool has) { return has ? "works" : "no"; }

Json ToJson(const MachineFacts& facts, const std::vector<std::string>& warnings) {
  Json json = {
      {"version", EMBERBANK_VERSION},
      {"processor", facts.processor},
      {"physical_cores", facts.cpu.physical_cores},
      {"hardware_threads", facts.hardware_threads},
      {"probe",
       {{"avx2", facts.cpu.avx2},
        {"avx512_vnni", facts.cpu.avx512_vnni},
        {"amx_int8", facts.cpu.amx_int8},
        {"neon_dot", facts.cpu.neon_dot}}},
      {"kernels", Describe(facts.kernels)},
      {"memory_bytes", facts.memory_bytes},
      {"read_bytes_per_s", facts.speed.read_bytes_per_s},
      {"int8_ops_per_s", facts.speed.int8_ops_per_s},
  };
  json["available_bytes"] = facts.available_bytes ? Json(*facts.available_bytes) : Json();
  json["load"] = facts.load ? Json(*facts.load) : Json();
  json["disk"] = nullptr;
  if (facts.disk) {
    json["disk"] = {{"directory", facts.disk->directory.string()},
                    {"free_bytes", facts.disk->free_bytes},
                    {"write_bytes_per_s", facts.disk->write_bytes_per_s},
                    {"read_bytes_per_s", facts.disk->read_bytes_per_s}};
  }
  json["warnings"] = warnings;
  return json;
}

void Row(const char* name, const std::string& value) {
  PrintTo(stdout, "{:<12} {}\n", name, value);
}

void Print(const MachineFacts& facts, const std::vector<std::string>& warnings) {
  Row("emberbank", EMBERBANK_VERSION);
  Row("processor", fmt::format("{}, {} physical cores, {} hardware threads",
                               facts.processor.empty() ? "unknown" : facts.processor,
                               facts.cpu.physical_cores, facts.hardware_threads));
  Row("probe", fmt::format("AVX2 {}, AVX-512 VNNI {}, AMX int8 {} (no kernels yet), NEON {}",
                           YesNo(facts.cpu.avx2), YesNo(facts.cpu.avx512_vnni),
                           YesNo(facts.cpu.amx_int8), YesNo(facts.cpu.neon_dot)));
  Row("kernels", Describe(facts.kernels));
  Row("memory", facts.available_bytes ? fmt::format("{}, {} free", FormatBytes(facts.memory_bytes),
                                                    FormatBytes(*facts.available_bytes))
                                      : FormatBytes(facts.memory_bytes));
  Row("bandwidth",
      fmt::format("{:.1f} GB/s read from memory: at most that over the bytes of the weights and "
                  "of the context's K and V in tokens a second",
                  facts.speed.read_bytes_per_s / 1e9));
  Row("int8 peak", fmt::format("{:.0f} GOP/s", facts.speed.int8_ops_per_s / 1e9));
  if (facts.disk) {
    Row("disk",
        fmt::format("{}: {} free, writes {:.0f} MB/s, reads {:.0f} MB/s",
                    facts.disk->directory.string(), FormatBytes(facts.disk->free_bytes),
                    facts.disk->write_bytes_per_s / 1e6, facts.disk->read_bytes_per_s / 1e6));
  }
  for (const std::string& warning : warnings) {
    Row("warning", warning);
  }
  if (warnings.empty()) {
    Row("result", "nothing slows this machine");
  }
}

void Measure(const DoctorOptions& options, MachineFacts& facts) {
  PrintTo(stderr, "measuring memory and processor...\n");
  {
    ops::ThreadPool pool(facts.kernels.threads);
    facts.speed = ops::MeasureMachine(pool, facts.kernels.instruction_set);
  }
  const auto standard = DefaultCacheDirectory(ProcessEnvironment());
  if (options.ssd_cache_dir.empty() && !standard) {
    facts.disk_problem = "No HOME says where prefixes are kept; --ssd-cache-dir does.";
    return;
  }
  const std::filesystem::path directory =
      options.ssd_cache_dir.empty() ? *standard : std::filesystem::path(options.ssd_cache_dir);
  PrintTo(stderr, "measuring the disk of {}...\n", directory.string());
  const std::unique_ptr<FileSystem> files = MakeOsFileSystem();
  Result<DiskFacts> disk = MeasureDisk(*files, directory);
  if (disk) {
    facts.disk = std::move(*disk);
  } else {
    facts.disk_problem = disk.error().message;
  }
}

}  // namespace

int RunDoctorCommand(const DoctorOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging("error");
  const Result<KernelChoice> kernels = ChooseKernels(ProcessEnvironment(), options.threads);
  if (!kernels) {
    PrintTo(stderr, "emberbank: {}\n", kernels.error().message);
    return 1;
  }
  MachineFacts facts;
  facts.cpu = ops::DetectCpu();
  facts.kernels = *kernels;
  facts.hardware_threads = static_cast<int>(std::thread::hardware_concurrency());
  facts.memory_bytes = TotalMemoryBytes();
  ReadSystemFiles("/", facts);  // the load before this program's own
  Measure(options, facts);
  const std::vector<std::string> warnings = Warnings(facts);
  if (options.json) {
    PrintTo(stdout, "{}\n", DumpJson(ToJson(facts, warnings)));
  } else {
    Print(facts, warnings);
  }
  return 0;
}

}  // namespace app
