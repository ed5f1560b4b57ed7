// Any bytes as a GGUF file: parsed, and what was parsed translated. Nothing may crash, and every
// tensor lies inside the bytes.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "model_files/gguf_config.h"
#include "model_files/gguf_families.h"
#include "model_files/gguf_file.h"
#include "model_files/gguf_vocabulary.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const Result<model_files::GgufFile> file = model_files::ParseGguf(bytes, "fuzz.gguf");
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
  for (const auto& [key, value] : file->metadata.values()) {
    static_cast<void>(file->metadata.Integer(key));
    static_cast<void>(file->metadata.Texts(key));
    static_cast<void>(file->metadata.Floats(key));
  }
  for (const char* architecture : {"llama", "qwen3", "gemma3", "other"}) {
    static_cast<void>(model_files::TranslateConfig(
        *file, architecture, model_files::FindGgufFamily(architecture), "fuzz.gguf"));
  }
  if (const auto tokenizer = model_files::ReadGgufTokenizer(file->metadata, "fuzz.gguf")) {
    static_cast<void>(model_files::ReadGgufEndTokens(file->metadata, *tokenizer));
  }
  return 0;
}
