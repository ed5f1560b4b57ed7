#pragma once

#include "api/reply.h"
#include "api/validation.h"
#include "scheduler/request.h"

namespace api {

// The class of a request: the field `priority`, else the header X-Priority; "interactive" or
// "background", or vLLM's whole number, of which those above 0 are background. Where neither says
// it, a chat without tools whose reply is bounded to kSmallReply tokens is taken for an agent's
// side request (a title): background. Faults are recorded in `fields`.
[[nodiscard]] scheduler::Priority ReadPriority(FieldReader& fields, const ApiRequest& request);

// An agent's own turns ask for thousands of tokens.
inline constexpr int kSmallReply = 512;

}  // namespace api
