#include "api/cancel_request.h"

#include <fmt/format.h>

namespace api {

void CancelRequest(ModelManager& models, const ApiRequest& request, Reply& reply) {
  const std::string& id = request.path_params.at("id");
  bool found = false;
  for (ServedModel* model : models.Models()) {
    found = model->active.Cancel(request.tenant, id) || found;
  }
  if (found) {
    reply.SendJson(200, {{"id", id}, {"object", "request.cancelled"}, {"cancelled", true}});
    return;
  }
  reply.SendError(
      {.code = ErrorCode::kNotFound,
       .message = fmt::format("There is no request {} under way.", DumpJson(id.substr(0, 80))),
       .param = "id"});
}

}  // namespace api
