#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// GET /v1/cache/stats: the tiers of each model's bank in numbers.
void CacheStats(ModelManager& models, const ApiRequest& request, Reply& reply);

// DELETE /v1/cache: {"model": name or absent for all, "tier": "memory", "disk" or "all" (default)}.
void ClearCache(ModelManager& models, const ApiRequest& request, Reply& reply);

// POST /v1/cache/prefill: computes the prompt of a chat request (`messages`, `tools`) or a text
// (`prompt`) into the bank, without output.
void PrefillCache(ModelManager& models, const ApiRequest& request, Reply& reply);

// GET /v1/cache/requests: the last requests of the caller's tenant, the latest first: where their
// prompts' tokens came from, and where and why a prompt parted from the nearest before it.
void ListRequests(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
