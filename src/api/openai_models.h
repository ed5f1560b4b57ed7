#pragma once

#include "api/reply.h"
#include "api/served_model.h"

namespace api {

// GET /v1/models.
void ListModels(ModelManager& models, const ApiRequest& request, Reply& reply);

// GET /v1/models/{id}.
void GetModel(ModelManager& models, const ApiRequest& request, Reply& reply);

}  // namespace api
