#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// POST /v1/requests/{id}/cancel: ends what runs under an X-Request-Id or the id of an answer (that
// a stream has told), of the same API key only.
void CancelRequest(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
