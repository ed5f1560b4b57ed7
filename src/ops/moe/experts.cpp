#include "ops/moe/experts.h"

#include <fmt/format.h>

#include <cassert>
#include <exception>

#include "ops/linear/coding.h"
#include "ops/moe/make_experts.h"

namespace ops {
namespace {

// `first`: the same matrix of the first expert.
Result<void> CheckMatrix(const WeightSource& source, const WeightSource& first, int n_out,
                         int n_in) {
  if (Result<void> ok = linear::CheckSource(source); !ok) {
    return ok;
  }
  if (source.format != first.format || source.bits != first.bits ||
      source.group_size != first.group_size) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("Tensors `{}` and `{}` are matrices of experts, but are stored in "
                            "different formats.",
                            first.name, source.name));
  }
  if (source.n_out != n_out || source.n_in != n_in) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("Tensor `{}` has the shape [{}, {}], but the other experts ask for "
                            "[{}, {}].",
                            source.name, source.n_out, source.n_in, n_out, n_in));
  }
  return {};
}

Result<void> CheckBias(const std::vector<float>& bias, const WeightSource& source, bool wanted) {
  const std::size_t size = wanted ? static_cast<std::size_t>(source.n_out) : 0;
  if (bias.size() != size) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The bias of tensor `{}` should have {} values, but has {}.",
                            source.name, size, bias.size()));
  }
  return {};
}

Result<void> CheckExperts(std::span<const ExpertSource> sources) {
  const ExpertSource& first = sources.front();
  const int intermediate = first.gate.n_out;
  const int hidden = first.gate.n_in;
  for (const ExpertSource& expert : sources) {
    for (const Result<void>& ok :
         {CheckMatrix(expert.gate, first.gate, intermediate, hidden),
          CheckMatrix(expert.up, first.up, intermediate, hidden),
          CheckMatrix(expert.down, first.down, hidden, intermediate),
          CheckBias(expert.gate_bias, expert.gate, !first.gate_bias.empty()),
          CheckBias(expert.up_bias, expert.up, !first.gate_bias.empty()),
          CheckBias(expert.down_bias, expert.down, !first.down_bias.empty())}) {
      if (!ok) {
        return ok;
      }
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Experts>> MakeExperts(const Context& context,
                                             std::span<const ExpertSource> sources,
                                             Activation activation) {
  assert(!sources.empty());
  if (Result<void> ok = CheckExperts(sources); !ok) {
    return Fail(ok.error());
  }
  try {
    return context.path == KernelPath::kNative
               ? moe::MakeNativeExperts(context, sources, activation)
               : moe::MakeReferenceExperts(sources, activation);
  } catch (const std::exception& error) {  // std::bad_alloc, or MLX's own
    return Fail(ErrorCode::kOutOfMemory,
                fmt::format("The experts of tensor `{}` could not be prepared: {}.",
                            sources.front().gate.name, error.what()));
  }
}

}  // namespace ops
