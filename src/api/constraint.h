#pragma once

#include <memory>

#include "api/generate.h"
#include "base/token_constraint.h"

namespace api {

// What the reply is held to: calls where the client demands them, well-formed ones where it offers
// tools, and the form of the answer that it asks for; nullptr where it asks for nothing. A model
// that reasons may do so first. Errors: kInvalidRequest with what a schema or a grammar has that
// cannot be used, kUnsupported where the model's format has no calls to demand.
[[nodiscard]] Result<std::unique_ptr<TokenConstraint>> MakeConstraint(
    const ServedModel& model, const GenerationInput& input, const GenerationOptions& options);

}  // namespace api
