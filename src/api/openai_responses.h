#pragma once

#include "api/reply.h"
#include "api/response_store.h"
#include "api/served_model.h"

namespace api {

// POST /v1/responses. Answers are kept in `store` unless the request says `"store": false`.
void CreateResponse(ModelManager& models, ResponseStore& store, const ApiRequest& request,
                    Reply& reply);

// GET and DELETE /v1/responses/{id}, POST /v1/responses/{id}/cancel,
// GET /v1/responses/{id}/input_items.
void GetResponse(ModelManager& models, ResponseStore& store, const ApiRequest& request,
                 Reply& reply);
void DeleteResponse(ModelManager& models, ResponseStore& store, const ApiRequest& request,
                    Reply& reply);
void CancelResponse(ModelManager& models, ResponseStore& store, const ApiRequest& request,
                    Reply& reply);
void ListInputItems(ModelManager& models, ResponseStore& store, const ApiRequest& request,
                    Reply& reply);

}  // namespace api
