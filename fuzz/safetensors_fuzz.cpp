// Any bytes as a safetensors file. Nothing may crash, and every tensor lies inside the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model_files/safetensors_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto file = model_files::ParseSafetensors(bytes, "fuzz.safetensors");
  if (!file) {
    return 0;
  }
  for (const model_files::TensorView& tensor : file->tensors) {
    const bool inside =
        tensor.data.empty() || (tensor.data.data() >= bytes.data() &&
                                tensor.data.data() + tensor.data.size() <= bytes.data() + size);
    if (!inside) {
      std::abort();
    }
  }
  return 0;
}
