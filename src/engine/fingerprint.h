#pragma once

#include <string>

#include "model_files/model_source.h"
#include "ops/context.h"
#include "ops/kv_store/kv_store.h"

namespace engine {

// What, besides the model's files, decides the bits of stored state.
struct NumericPath {
  ops::KernelPath path = ops::KernelPath::kNative;
  ops::InstructionSet instruction_set = ops::InstructionSet::kPlain;
  ops::KvDtype kv_dtype = ops::KvDtype::kF16;
};

// SHA-256, in hex, of everything that makes cached state valid: configuration, tokenizer, names,
// shapes, formats and bytes of the tensors, numeric path and storage version. Tensors of up to
// kWholeTensorBytes enter whole, of larger ones the first, the last and evenly spaced pieces:
// reading 100 GB at each start would cost minutes, and fine-tuning or re-quantising changes every
// piece of a matrix.
[[nodiscard]] std::string Fingerprint(const model_files::ModelSource& source,
                                      const NumericPath& numeric);

}  // namespace engine
