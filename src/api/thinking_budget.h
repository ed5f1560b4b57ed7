#pragma once

#include <memory>
#include <optional>

#include "api/generate.h"
#include "api/validation.h"
#include "base/token_constraint.h"

namespace api {

// How many tokens a reply may reason for: reasoning_max_tokens, thinking_budget,
// thinking_token_budget, reasoning.max_tokens or thinking.budget_tokens, else what an effort
// (reasoning_effort, reasoning.effort, output_config.effort) stands for, unless the template itself
// tells the model of the effort. Nothing: no limit. Faults are recorded in `fields`.
[[nodiscard]] std::optional<int> ReadThinkingBudget(FieldReader& fields, const ServedModel& model);

// `inner` (may be nullptr) with the reasoning ended after `budget` tokens: then the closer comes,
// whatever the model would say.
[[nodiscard]] std::unique_ptr<TokenConstraint> WithThinkingBudget(
    std::unique_ptr<TokenConstraint> inner, int budget, const ServedModel& model,
    const GenerationInput& input);

}  // namespace api
