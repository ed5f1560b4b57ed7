#include "ops/attention/attention.h"

#include "ops/attention/native_attention.h"
#include "ops/attention/reference_attention.h"

namespace ops {

namespace mx = mlx::core;

mx::array Attention(const Context& context, const AttentionSpec& spec, const mx::array& qkv,
                    const mx::array& angles, const std::optional<mx::array>& q_norm,
                    const std::optional<mx::array>& k_norm, const StepBatch& batch, KvStore& store,
                    const std::optional<mx::array>& sinks) {
  if (context.path == KernelPath::kReference) {
    return ReferenceAttention(spec, qkv, angles, q_norm, k_norm, batch, store, sinks);
  }
  return NativeAttention(context, spec, qkv, angles, q_norm, k_norm, batch, store, sinks);
}

}  // namespace ops
