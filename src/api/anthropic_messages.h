#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// POST /v1/messages.
void AnthropicMessages(ModelManager& models, const ApiRequest& request, Reply& reply);

// POST /v1/messages/count_tokens: the tokens that the same request would have as its input.
void AnthropicCountTokens(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
