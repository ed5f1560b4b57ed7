#include "ops/kv_store/kv_dtype.h"

#include "ops/kv_store/block_store.h"

namespace ops {

std::string_view Name(KvDtype dtype) {
  switch (dtype) {
    case KvDtype::kF32:
      return "f32";
    case KvDtype::kF16:
      return "f16";
    case KvDtype::kI8:
      return "i8";
    case KvDtype::kI4:
      return "i4";
  }
  return "";
}

std::size_t KvHeadBytes(KvDtype dtype, int head_dim) {
  constexpr std::size_t kTokens = kBlockTokens;
  const auto dims = static_cast<std::size_t>(head_dim);
  switch (dtype) {
    case KvDtype::kF32:
      return 2 * kTokens * dims * sizeof(float);
    case KvDtype::kF16:
      return 2 * kTokens * dims * sizeof(std::uint16_t);
    case KvDtype::kI8:
      return 2 * kTokens * (dims + sizeof(float));
    case KvDtype::kI4:
      return 2 * kTokens * (dims / 2 + dims / kI4Group * 2 * sizeof(std::uint16_t));
  }
  return 0;
}

}  // namespace ops
