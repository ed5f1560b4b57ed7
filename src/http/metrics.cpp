#include "http/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <chrono>
#include <map>
#include <utility>
#include <vector>

namespace http {
namespace {

using prometheus::MetricType;

struct ModelValue {
  const char* name;
  const char* help;
  MetricType type;
  double (*get)(const scheduler::SchedulerStats& stats);
};

template <auto kMember>
double Stat(const scheduler::SchedulerStats& stats) {
  return static_cast<double>(stats.*kMember);
}

template <auto kMember>
double CacheStat(const scheduler::SchedulerStats& stats) {
  return static_cast<double>(stats.cache.*kMember);
}

template <auto kMember>
double DiskStat(const scheduler::SchedulerStats& stats) {
  return stats.cache.disk ? static_cast<double>((*stats.cache.disk).*kMember) : 0.0;
}

template <auto kMember>
double RemoteStat(const scheduler::SchedulerStats& stats) {
  return stats.cache.remote ? static_cast<double>((*stats.cache.remote).*kMember) : 0.0;
}

using cache::CacheStats;
using cache::RemoteStats;
using cache::SsdStats;
using scheduler::SchedulerStats;

double DiskErrors(const SchedulerStats& stats) {
  return DiskStat<&SsdStats::read_errors>(stats) + DiskStat<&SsdStats::write_errors>(stats);
}

constexpr ModelValue kModelValues[] = {
    {"emberbank_requests_running", "Sequences being computed", MetricType::Gauge,
     &Stat<&SchedulerStats::running>},
    {"emberbank_requests_waiting", "Sequences in the queue", MetricType::Gauge,
     &Stat<&SchedulerStats::waiting>},
    {"emberbank_steps_total", "Engine steps", MetricType::Counter, &Stat<&SchedulerStats::steps>},
    {"emberbank_requests_finished_total", "Sequences that ended by themselves", MetricType::Counter,
     &Stat<&SchedulerStats::requests_finished>},
    {"emberbank_requests_cancelled_total", "Sequences that were cancelled", MetricType::Counter,
     &Stat<&SchedulerStats::requests_cancelled>},
    {"emberbank_requests_cancelled_in_queue_total",
     "Sequences cancelled before any of their tokens was computed", MetricType::Counter,
     &Stat<&SchedulerStats::requests_cancelled_in_queue>},
    {"emberbank_requests_failed_total", "Sequences that failed", MetricType::Counter,
     &Stat<&SchedulerStats::requests_failed>},
    {"emberbank_requests_refused_total", "Sequences refused, mostly by a full queue",
     MetricType::Counter, &Stat<&SchedulerStats::requests_refused>},
    {"emberbank_preemptions_total", "Sequences put back into the queue", MetricType::Counter,
     &Stat<&SchedulerStats::preemptions>},
    {"emberbank_prompt_tokens_total", "Prompt tokens, computed or found in the bank",
     MetricType::Counter, &Stat<&SchedulerStats::prompt_tokens>},
    {"emberbank_cached_prompt_tokens_total", "Prompt tokens found in the bank", MetricType::Counter,
     &Stat<&SchedulerStats::cached_prompt_tokens>},
    {"emberbank_completion_tokens_total", "Tokens generated", MetricType::Counter,
     &Stat<&SchedulerStats::completion_tokens>},
    {"emberbank_kv_used_bytes", "KV memory held by the bank and by sequences", MetricType::Gauge,
     &CacheStat<&CacheStats::used_bytes>},
    {"emberbank_kv_budget_bytes", "KV memory there is", MetricType::Gauge,
     &CacheStat<&CacheStats::budget_bytes>},
    {"emberbank_cached_blocks", "Blocks in the bank", MetricType::Gauge,
     &CacheStat<&CacheStats::cached_blocks>},
    {"emberbank_cache_hits_total", "Lookups that found a prefix", MetricType::Counter,
     &CacheStat<&CacheStats::hits>},
    {"emberbank_cache_misses_total", "Lookups that found none", MetricType::Counter,
     &CacheStat<&CacheStats::misses>},
    {"emberbank_cache_evicted_blocks_total", "Blocks evicted", MetricType::Counter,
     &CacheStat<&CacheStats::evicted_blocks>},
    {"emberbank_disk_prompt_tokens_total", "Prompt tokens restored from the disk",
     MetricType::Counter, &Stat<&SchedulerStats::disk_prompt_tokens>},
    {"emberbank_disk_used_bytes", "Files of the disk cache's directory", MetricType::Gauge,
     &DiskStat<&SsdStats::used_bytes>},
    {"emberbank_disk_budget_bytes", "Most that they may take", MetricType::Gauge,
     &DiskStat<&SsdStats::budget_bytes>},
    {"emberbank_disk_blocks", "Blocks on disk for this model", MetricType::Gauge,
     &DiskStat<&SsdStats::own_blocks>},
    {"emberbank_disk_pending_bytes", "Memory of blocks to be written", MetricType::Gauge,
     &DiskStat<&SsdStats::queued_bytes>},
    {"emberbank_disk_read_ahead_bytes", "Memory of blocks read and not yet taken in",
     MetricType::Gauge, &DiskStat<&SsdStats::staged_bytes>},
    {"emberbank_disk_written_bytes_total", "Bytes written to the disk cache", MetricType::Counter,
     &DiskStat<&SsdStats::written_bytes>},
    {"emberbank_disk_read_bytes_total", "Bytes read from it", MetricType::Counter,
     &DiskStat<&SsdStats::read_bytes>},
    {"emberbank_disk_dropped_blocks_total", "Blocks lost since they could not be written",
     MetricType::Counter, &DiskStat<&SsdStats::dropped_blocks>},
    {"emberbank_disk_evicted_files_total", "Files removed for room", MetricType::Counter,
     &DiskStat<&SsdStats::evicted_files>},
    {"emberbank_disk_damaged_files_total", "Files that failed a check", MetricType::Counter,
     &DiskStat<&SsdStats::damaged_files>},
    {"emberbank_disk_errors_total", "Reads and writes that the system refused", MetricType::Counter,
     &DiskErrors},
    {"emberbank_disk_wear_bytes_total", "Bytes ever written to the directory, by all servers",
     MetricType::Counter, &DiskStat<&SsdStats::wear_bytes>},
    {"emberbank_remote_prompt_tokens_total", "Prompt tokens restored from the shared tier",
     MetricType::Counter, &Stat<&SchedulerStats::remote_prompt_tokens>},
    {"emberbank_remote_available", "Whether its server gave its last answer in time",
     MetricType::Gauge, &RemoteStat<&RemoteStats::available>},
    {"emberbank_remote_lookups_total", "Prompts that it was asked for", MetricType::Counter,
     &RemoteStat<&RemoteStats::lookups>},
    {"emberbank_remote_pending_bytes", "Memory of blocks to be written to it", MetricType::Gauge,
     &RemoteStat<&RemoteStats::queued_bytes>},
    {"emberbank_remote_read_ahead_bytes", "Memory of its blocks read and not yet taken in",
     MetricType::Gauge, &RemoteStat<&RemoteStats::staged_bytes>},
    {"emberbank_remote_written_bytes_total", "Bytes written to it", MetricType::Counter,
     &RemoteStat<&RemoteStats::written_bytes>},
    {"emberbank_remote_read_bytes_total", "Bytes read from it", MetricType::Counter,
     &RemoteStat<&RemoteStats::read_bytes>},
    {"emberbank_remote_dropped_blocks_total", "Blocks that it did not get", MetricType::Counter,
     &RemoteStat<&RemoteStats::dropped_blocks>},
    {"emberbank_remote_missing_blocks_total", "Blocks that it said to have and had not",
     MetricType::Counter, &RemoteStat<&RemoteStats::missing_blocks>},
    {"emberbank_remote_damaged_blocks_total", "Blocks from it that failed a check",
     MetricType::Counter, &RemoteStat<&RemoteStats::damaged_blocks>},
    {"emberbank_remote_timeouts_total", "Times that it did not answer in time",
     MetricType::Counter, &RemoteStat<&RemoteStats::timeouts>},
    {"emberbank_remote_errors_total", "Times that it could not be reached or refused",
     MetricType::Counter, &RemoteStat<&RemoteStats::errors>},
};

// Seconds; from a short cached prompt on a small model to a long one on a slow machine.
const prometheus::Histogram::BucketBoundaries kTtftBuckets = {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                              2.5,  5,     10,   25,  60,   180};
const prometheus::Histogram::BucketBoundaries kTokenBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                                               0.05,  0.1,    0.25,  0.5,  1};
const prometheus::Histogram::BucketBoundaries kRequestBuckets = {0.005, 0.025, 0.1, 0.5, 1,   2.5,
                                                                 5,     10,    30,  60,  180, 600};

double SecondsSinceEpoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

prometheus::Histogram& AddHistogram(prometheus::Registry& registry, const char* name,
                                    const char* help,
                                    const prometheus::Histogram::BucketBoundaries& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

prometheus::MetricFamily ReadModels(const ModelValue& value,
                                    const std::map<std::string, SchedulerStats>& stats) {
  prometheus::MetricFamily family;
  family.name = value.name;
  family.help = value.help;
  family.type = value.type;
  for (const auto& [model, model_stats] : stats) {
    prometheus::ClientMetric metric;
    metric.label = {{"model", model}};
    metric.gauge.value = value.get(model_stats);
    metric.counter.value = value.get(model_stats);
    family.metric.push_back(std::move(metric));
  }
  return family;
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  prometheus::Family<prometheus::Counter>& requests = prometheus::BuildCounter()
                                                          .Name("emberbank_http_requests_total")
                                                          .Help("HTTP requests by route and status")
                                                          .Register(registry);
  prometheus::Histogram& duration =
      AddHistogram(registry, "emberbank_http_request_duration_seconds",
                   "From a request read to its answer written", kRequestBuckets);
  prometheus::Histogram& ttft =
      AddHistogram(registry, "emberbank_time_to_first_token_seconds",
                   "From a request queued to its first token", kTtftBuckets);
  prometheus::Histogram& per_token =
      AddHistogram(registry, "emberbank_time_per_output_token_seconds",
                   "Between two tokens of a reply, its mean", kTokenBuckets);
};

Metrics::Metrics() : impl_(std::make_unique<Impl>()) {
  prometheus::BuildGauge()
      .Name("process_start_time_seconds")
      .Help("Unix time at which the server started")
      .Register(impl_->registry)
      .Add({})
      .Set(SecondsSinceEpoch());
}

Metrics::~Metrics() = default;

void Metrics::Count(std::string_view route, const AnswerRecord& record) {
  impl_->requests.Add({{"route", std::string(route)}, {"status", std::to_string(record.status)}})
      .Increment();
  impl_->duration.Observe(record.duration_ms / 1000);
  if (!record.usage || record.usage->completion_tokens == 0) {
    return;
  }
  impl_->ttft.Observe(record.usage->ttft_ms / 1000);
  if (const auto n = record.usage->timings.completion_tokens; n > 1) {
    impl_->per_token.Observe(record.usage->timings.predicted_ms / 1000 /
                             static_cast<double>(n - 1));
  }
}

std::string Metrics::Text(api::ModelManager& models) const {
  std::map<std::string, SchedulerStats> stats;
  for (const api::ServedModel* model : models.Models()) {
    stats.emplace(model->name, model->scheduler->stats());
  }
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  for (const ModelValue& value : kModelValues) {
    families.push_back(ReadModels(value, stats));
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace http
