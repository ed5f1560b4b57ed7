#pragma once

#include <memory>
#include <span>

#include "ops/moe/experts.h"

namespace ops::moe {

// The two kinds of Experts behind MakeExperts. REQUIRES: the sources are checked.
[[nodiscard]] std::unique_ptr<Experts> MakeNativeExperts(const Context& context,
                                                         std::span<const ExpertSource> sources,
                                                         Activation activation);
[[nodiscard]] std::unique_ptr<Experts> MakeReferenceExperts(std::span<const ExpertSource> sources,
                                                            Activation activation);

}  // namespace ops::moe
