#include "ops/linear/reference_part.h"

#include <vector>

#include "ops/linear/coding.h"

namespace ops::linear {
namespace {

using mlx::core::array;
using mlx::core::Shape;

template <class T>
array ToArray(const std::vector<T>& values, int n_rows) {
  return array(values.data(),
               Shape{n_rows, static_cast<int>(values.size() / static_cast<std::size_t>(n_rows))});
}

ReferencePart MakeDensePart(const WeightSource& source) {
  const std::size_t n_in = static_cast<std::size_t>(source.n_in);
  std::vector<float> values(static_cast<std::size_t>(source.n_out) * n_in);
  for (int row = 0; row < source.n_out; ++row) {
    DecodeValues(source, row, values.data() + static_cast<std::size_t>(row) * n_in);
  }
  return {.n_out = source.n_out, .weights = ToArray(values, source.n_out)};
}

// Appends a row of codes as MLX packs them: little end first.
void AppendWords(const std::vector<std::uint8_t>& codes, unsigned bits,
                 std::vector<std::uint32_t>& words) {
  const std::size_t per_word = 32 / bits;
  for (std::size_t i = 0; i < codes.size(); i += per_word) {
    std::uint32_t word = 0;
    for (std::size_t j = 0; j < per_word; ++j) {
      word |= static_cast<std::uint32_t>(codes[i + j]) << (bits * static_cast<unsigned>(j));
    }
    words.push_back(word);
  }
}

ReferencePart MakeCodedPart(const WeightSource& source) {
  const Coding coding = CodingOf(source);
  CodedRow row(coding, source.n_in);
  const int bits = coding.code_bits <= 4 ? 4 : 8;
  std::vector<std::uint32_t> words;
  std::vector<float> scales;
  std::vector<float> biases;
  for (int r = 0; r < source.n_out; ++r) {
    DecodeRow(source, r, row);
    AppendWords(row.codes, static_cast<unsigned>(bits), words);
    scales.insert(scales.end(), row.scales.begin(), row.scales.end());
    if (coding.affine) {
      biases.insert(biases.end(), row.biases.begin(), row.biases.end());
    } else {
      for (const float scale : row.scales) {
        biases.push_back(-scale * static_cast<float>(coding.zero));
      }
    }
  }
  return {.n_out = source.n_out,
          .weights = ToArray(words, source.n_out),
          .scales = ToArray(scales, source.n_out),
          .biases = ToArray(biases, source.n_out),
          .bits = bits,
          .group_size = coding.scale_group};
}

// MLX has no groups of 16.
bool NeedsDense(const WeightSource& source) {
  return IsFloat(source.format) || CodingOf(source).scale_group < 32;
}

}  // namespace

ReferencePart MakeReferencePart(const WeightSource& source) {
  return NeedsDense(source) ? MakeDensePart(source) : MakeCodedPart(source);
}

}  // namespace ops::linear
