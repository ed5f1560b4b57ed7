#pragma once

#include "api/generate.h"
#include "api/reply.h"
#include "api/served_model.h"
#include "api/validation.h"

namespace api {

// The fields that chat and text completions share: sampling, stop, max_tokens, n, seed, logit_bias,
// ignore_eos, cache_salt, ...; where the request says nothing, the model's defaults. Faults are
// recorded in `fields`.
[[nodiscard]] GenerationOptions ReadGenerationOptions(FieldReader& fields, const ServedModel& model,
                                                      const ApiRequest& request);

// What separates this request's blocks in the bank from others': its tenant and `cache_salt`.
[[nodiscard]] std::string CacheSalt(FieldReader& fields, const ApiRequest& request);

// A request's body and the model that it asks for.
struct BodyAndModel {
  Json body;
  ServedModel* model = nullptr;  // never null
};
// Errors: those of ParseBody and FindModel.
[[nodiscard]] Result<BodyAndModel> OpenBody(ModelManager& models, const ApiRequest& request);

// The stop strings of the field `name`: a string or a list of them.
[[nodiscard]] std::vector<std::string> ReadStops(FieldReader& fields, const char* name);

// The model the request asks for; absent, null or empty: the first one served. Errors:
// kInvalidRequest, kModelNotFound.
[[nodiscard]] Result<ServedModel*> FindModel(const Json& body, ModelManager& models);

// Clamped to what an int holds.
[[nodiscard]] int ToInt(std::int64_t value);

// usage and timings as both endpoints report them.
[[nodiscard]] Json UsageJson(const Usage& usage);
[[nodiscard]] Json TimingsJson(const Usage& usage);

// How many prompt tokens came from the bank, in all, from memory and from the disk.
[[nodiscard]] Json CachedTokensJson(const Usage& usage);

// "stop", "length".
[[nodiscard]] const char* FinishName(scheduler::FinishReason reason);

// Unix seconds now, for `created`.
[[nodiscard]] std::int64_t UnixNow();

// `prefix` and 24 random letters and digits.
[[nodiscard]] std::string MakeId(std::string_view prefix);

}  // namespace api
