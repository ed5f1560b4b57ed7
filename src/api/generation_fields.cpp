#include "api/generation_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <utility>

#include "api/answer_form.h"
#include "api/thinking_budget.h"
#include "base/random_id.h"

namespace api {
namespace {

// {"50256": -100}; ids must be in the vocabulary.
std::map<TokenId, double> ReadLogitBias(FieldReader& fields, int vocab_size) {
  const Json* object = fields.Object("logit_bias");
  if (object == nullptr) {
    return {};
  }
  std::map<TokenId, double> biases;
  FieldReader values(*object, "logit_bias.");
  for (const auto& [key, value] : object->items()) {
    TokenId id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc{} || end != key.data() + key.size() || id < 0 || id >= vocab_size) {
      fields.FailField("logit_bias",
                       fmt::format("must have token ids from 0 to {} as keys, got {}.",
                                   vocab_size - 1, DumpJson(key.substr(0, 40))));
      return {};
    }
    if (const auto bias = values.Number(key.c_str(), kLogitBias)) {
      biases[id] = *bias;
    }
  }
  if (values.error()) {
    fields.FailWith(*values.error());
  }
  return biases;
}

std::optional<std::uint64_t> ReadSeed(FieldReader& fields) {
  if (const Json* seed = fields.Find("seed"); seed != nullptr && seed->is_number_unsigned()) {
    return seed->get<std::uint64_t>();
  }
  if (const auto seed = fields.Integer("seed", {})) {
    return static_cast<std::uint64_t>(*seed);
  }
  return std::nullopt;
}

engine::SamplingParams ReadSampling(FieldReader& fields, const ServedModel& model) {
  const SamplingDefaults& defaults = model.sampling;
  engine::SamplingParams params;
  params.temperature = fields.Number("temperature", kTemperature).value_or(defaults.temperature);
  params.top_p = fields.Number("top_p", kTopP).value_or(defaults.top_p);
  params.top_k = ToInt(fields.Integer("top_k", kTopK).value_or(defaults.top_k));
  params.min_p = fields.Number("min_p", kMinP).value_or(defaults.min_p);
  params.presence_penalty = fields.Number("presence_penalty", kPenalty).value_or(0);
  params.frequency_penalty = fields.Number("frequency_penalty", kPenalty).value_or(0);
  params.repetition_penalty =
      fields.Number("repetition_penalty", kRepetitionPenalty).value_or(defaults.repetition_penalty);
  params.logit_bias = ReadLogitBias(fields, model.scheduler->facts().vocab_size);
  params.seed = ReadSeed(fields);
  return params;
}

double PerSecond(std::int64_t tokens, double ms) {
  return ms > 0 ? static_cast<double>(tokens) * 1000.0 / ms : 0.0;
}

}  // namespace

std::vector<std::string> ReadStops(FieldReader& fields, const char* name) {
  const Json* stop = fields.Find(name);
  if (stop == nullptr) {
    return {};
  }
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > static_cast<std::size_t>(kMaxStops)) {
    fields.FailField(name,
                     fmt::format("must have at most {} strings, got {}.", kMaxStops, list.size()));
    return {};
  }
  std::vector<std::string> stops;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string entry = stop->is_array() ? fmt::format("{}[{}]", name, i) : std::string(name);
    if (!list[i].is_string()) {
      fields.FailField(
          entry, fmt::format("must be a string{}, got {}.",
                             stop->is_array() ? "" : " or a list of strings", KindOf(list[i])));
    } else if (list[i].get_ref<const std::string&>().empty()) {
      fields.FailField(entry, "must not be an empty string.");
    } else {
      stops.push_back(list[i].get<std::string>());
    }
  }
  return stops;
}

// Nothing crosses tenants, whatever salt a request brings.
std::string CacheSalt(FieldReader& fields, const ApiRequest& request) {
  return request.tenant + "/" + fields.String("cache_salt").value_or("");
}

GenerationOptions ReadGenerationOptions(FieldReader& fields, const ServedModel& model,
                                        const ApiRequest& request) {
  GenerationOptions options;
  options.sampling = ReadSampling(fields, model);
  const auto max_tokens = fields.Integer("max_tokens", kMaxTokens);
  const auto max_completion_tokens = fields.Integer("max_completion_tokens", kMaxTokens);
  options.max_tokens = ToInt(max_completion_tokens.value_or(max_tokens.value_or(0)));
  options.n = ToInt(fields.Integer("n", kChoices).value_or(1));
  options.stop = ReadStops(fields, "stop");
  options.ignore_eos = fields.Bool("ignore_eos").value_or(false);
  options.include_stop_text = fields.Bool("include_stop_str_in_output").value_or(false);
  options.skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  options.cache_salt = CacheSalt(fields, request);
  options.request_id = request.request_id;
  options.form = ReadAnswerForm(fields);
  options.thinking_budget = ReadThinkingBudget(fields, model);
  return options;
}

Result<ServedModel*> FindModel(const Json& body, ModelManager& models) {
  FieldReader fields(body);
  const std::optional<std::string> name = fields.String("model");
  if (fields.error()) {
    return Fail(*fields.error());
  }
  if (name && !name->empty()) {
    return models.Find(*name);
  }
  const std::vector<ServedModel*> all = models.Models();
  if (all.empty()) {
    return Fail(ErrorCode::kModelNotFound, "No model is served.", "model");
  }
  return all.front();
}

Result<BodyAndModel> OpenBody(ModelManager& models, const ApiRequest& request) {
  Result<Json> body = ParseBody(request.body);
  if (!body) {
    return Fail(body.error());
  }
  const Result<ServedModel*> model = FindModel(*body, models);
  if (!model) {
    return Fail(model.error());
  }
  return BodyAndModel{.body = std::move(*body), .model = *model};
}

Json UsageJson(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", CachedTokensJson(usage)}};
}

Json CachedTokensJson(const Usage& usage) {
  return {{"cached_tokens", usage.cached_tokens},
          {"cached_tokens_memory", usage.memory_tokens()},
          {"cached_tokens_disk", usage.disk_tokens},
          {"cached_tokens_remote", usage.remote_tokens}};
}

// llama-server's fields: prompt_n counts the prompt tokens that were computed.
Json TimingsJson(const Usage& usage) {
  const scheduler::RequestStats& t = usage.timings;
  const std::int64_t computed = t.prompt_tokens - t.cached_tokens;
  const double prompt_each = computed > 0 ? t.prompt_ms / static_cast<double>(computed) : 0.0;
  const double predicted_each =
      t.completion_tokens > 0 ? t.predicted_ms / static_cast<double>(t.completion_tokens) : 0.0;
  return {{"cache_n", t.cached_tokens},
          {"restore_ms", t.restore_ms},
          {"prompt_n", computed},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_token_ms", prompt_each},
          {"prompt_per_second", PerSecond(computed, t.prompt_ms)},
          {"predicted_n", t.completion_tokens},
          {"predicted_ms", t.predicted_ms},
          {"predicted_per_token_ms", predicted_each},
          {"predicted_per_second", PerSecond(t.completion_tokens, t.predicted_ms)}};
}

const char* FinishName(scheduler::FinishReason reason) {
  return reason == scheduler::FinishReason::kLength ? "length" : "stop";
}

int ToInt(std::int64_t value) {
  return static_cast<int>(std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(),
                                                   std::numeric_limits<int>::max()));
}

std::int64_t UnixNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string MakeId(std::string_view prefix) { return std::string(prefix) + RandomId(24); }

}  // namespace api
