#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// POST /v1/chat/completions.
void ChatCompletions(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
