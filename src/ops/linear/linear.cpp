#include "ops/linear/linear.h"

#include <fmt/format.h>

#include <cassert>
#include <exception>
#include <limits>

#include "ops/linear/coding.h"
#include "ops/linear/kernels.h"
#include "ops/linear/make_linear.h"

namespace ops {
namespace {

Result<void> CheckParts(std::span<const WeightSource> parts, std::size_t bias_size) {
  std::size_t n_out = 0;
  for (const WeightSource& part : parts) {
    if (Result<void> ok = linear::CheckSource(part); !ok) {
      return ok;
    }
    if (part.n_in != parts.front().n_in) {
      return Fail(ErrorCode::kBadModel,
                  fmt::format("Tensors `{}` and `{}` are used together, but have {} and {} inputs.",
                              parts.front().name, part.name, parts.front().n_in, part.n_in));
    }
    n_out += static_cast<std::size_t>(part.n_out);
  }
  if (n_out > static_cast<std::size_t>(std::numeric_limits<int>::max() - linear::kTile)) {
    return Fail(ErrorCode::kBadModel, fmt::format("Tensor `{}` has {} outputs, which are too many.",
                                                  parts.front().name, n_out));
  }
  if (bias_size != 0 && bias_size != n_out) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("The bias of tensor `{}` should have {} values, but has {}.",
                            parts.front().name, n_out, bias_size));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Linear>> MakeLinear(const Context& context,
                                           std::span<const WeightSource> parts,
                                           std::span<const float> bias) {
  assert(!parts.empty());
  if (Result<void> ok = CheckParts(parts, bias.size()); !ok) {
    return Fail(ok.error());
  }
  try {
    return context.path == KernelPath::kNative ? linear::MakeNativeLinear(context, parts, bias)
                                               : linear::MakeReferenceLinear(parts, bias);
  } catch (const std::exception& error) {  // std::bad_alloc, or MLX's own
    return Fail(ErrorCode::kOutOfMemory, fmt::format("Tensor `{}` could not be prepared: {}.",
                                                     parts.front().name, error.what()));
  }
}

Result<std::unique_ptr<Linear>> MakeFloatLinear(const Context& context, const WeightSource& source,
                                                std::span<const float> bias) {
  if (Result<void> ok = CheckParts({&source, 1}, bias.size()); !ok) {
    return Fail(ok.error());
  }
  const auto n_in = static_cast<std::size_t>(source.n_in);
  std::vector<float> values(static_cast<std::size_t>(source.n_out) * n_in);
  for (int row = 0; row < source.n_out; ++row) {
    linear::DecodeValues(source, row, values.data() + static_cast<std::size_t>(row) * n_in);
  }
  const WeightSource floats{.name = source.name,
                            .format = WeightFormat::kF32,
                            .n_out = source.n_out,
                            .n_in = source.n_in,
                            .data = std::as_bytes(std::span(values))};
  return MakeLinear(context, {&floats, 1}, bias);
}

}  // namespace ops
