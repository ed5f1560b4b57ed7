// Linear as a plain MLX graph on the same stored values, x not rounded.
#include <mlx/device.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "ops/linear/coding.h"
#include "ops/linear/make_linear.h"

namespace ops::linear {
namespace {

using mlx::core::array;
using mlx::core::Shape;

// One part: dense float32, or MLX affine codes with float32 scales and biases.
struct Part {
  int n_out = 0;
  array weights;  // [n_out, n_in] float32, or [n_out, n_in * bits / 32] uint32
  std::optional<array> scales = std::nullopt;  // [n_out, n_in / group_size]
  std::optional<array> biases = std::nullopt;
  int bits = 0;
  int group_size = 0;
};

template <class T>
array ToArray(const std::vector<T>& values, int n_rows) {
  return array(values.data(),
               Shape{n_rows, static_cast<int>(values.size() / static_cast<std::size_t>(n_rows))});
}

Part MakeDensePart(const WeightSource& source) {
  const std::size_t n_in = static_cast<std::size_t>(source.n_in);
  std::vector<float> values(static_cast<std::size_t>(source.n_out) * n_in);
  if (IsFloat(source.format)) {
    for (int row = 0; row < source.n_out; ++row) {
      DecodeFloatRow(source, row, values.data() + static_cast<std::size_t>(row) * n_in);
    }
    return {.n_out = source.n_out, .weights = ToArray(values, source.n_out)};
  }
  const Coding coding = CodingOf(source);
  CodedRow row(coding, source.n_in);
  for (int r = 0; r < source.n_out; ++r) {
    DecodeRow(source, r, row);
    for (std::size_t i = 0; i < n_in; ++i) {
      const std::size_t group = i / static_cast<std::size_t>(coding.scale_group);
      const float product = row.scales[group] * static_cast<float>(row.codes[i] - coding.zero);
      values[static_cast<std::size_t>(r) * n_in + i] =
          coding.affine ? product + row.biases[group] : product;
    }
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

Part MakeCodedPart(const WeightSource& source) {
  const Coding coding = CodingOf(source);
  CodedRow row(coding, source.n_in);
  std::vector<std::uint32_t> words;
  std::vector<float> scales;
  std::vector<float> biases;
  for (int r = 0; r < source.n_out; ++r) {
    DecodeRow(source, r, row);
    AppendWords(row.codes, static_cast<unsigned>(coding.packed_bits()), words);
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
          .bits = coding.packed_bits(),
          .group_size = coding.scale_group};
}

// MLX has no groups of 16.
bool NeedsDense(const WeightSource& source) {
  return IsFloat(source.format) || CodingOf(source).scale_group < 32;
}

array Multiply(const Part& part, const array& x) {
  if (part.scales) {
    return mlx::core::quantized_matmul(x, part.weights, *part.scales, part.biases,
                                       /*transpose=*/true, part.group_size, part.bits);
  }
  return mlx::core::matmul(x, mlx::core::transpose(part.weights));
}

array TakeRows(const Part& part, const array& tokens) {
  const array rows = mlx::core::take(part.weights, tokens, 0);
  if (!part.scales) {
    return rows;
  }
  return mlx::core::dequantize(rows, mlx::core::take(*part.scales, tokens, 0),
                               mlx::core::take(*part.biases, tokens, 0), part.group_size,
                               part.bits);
}

class ReferenceLinear final : public Linear {
 public:
  ReferenceLinear(std::vector<Part> parts, std::optional<array> bias, int n_in)
      : parts_(std::move(parts)), bias_(std::move(bias)), n_in_(n_in) {
    for (const Part& part : parts_) {
      n_out_ += part.n_out;
    }
  }

  int n_in() const override { return n_in_; }
  int n_out() const override { return n_out_; }

  std::uint64_t bytes() const override {
    std::uint64_t sum = bias_ ? bias_->nbytes() : 0;
    for (const Part& part : parts_) {
      sum +=
          part.weights.nbytes() + (part.scales ? part.scales->nbytes() + part.biases->nbytes() : 0);
    }
    return sum;
  }

  array operator()(const array& x) const override {
    const array input = mlx::core::astype(x, mlx::core::float32);
    std::vector<array> outputs;
    for (const Part& part : parts_) {
      outputs.push_back(Multiply(part, input));
    }
    const array y = outputs.size() == 1 ? outputs.front() : mlx::core::concatenate(outputs, 1);
    return bias_ ? mlx::core::add(y, *bias_) : y;
  }

  array Rows(const array& tokens) const override {
    if (parts_.size() == 1) {
      return TakeRows(parts_.front(), tokens);
    }
    // Row t comes from the part whose outputs include tokens[t]; the others are asked for a row
    // that they have.
    array rows = mlx::core::zeros(Shape{static_cast<int>(tokens.size()), n_in_});
    int first = 0;
    for (const Part& part : parts_) {
      const array in_part = mlx::core::subtract(tokens, array(first));
      const array inside = mlx::core::logical_and(mlx::core::greater_equal(in_part, array(0)),
                                                  mlx::core::less(in_part, array(part.n_out)));
      const array safe = mlx::core::where(inside, in_part, array(0));
      rows = mlx::core::where(mlx::core::expand_dims(inside, 1), TakeRows(part, safe), rows);
      first += part.n_out;
    }
    return rows;
  }

 private:
  std::vector<Part> parts_;
  std::optional<array> bias_;
  int n_in_;
  int n_out_ = 0;
};

}  // namespace

std::unique_ptr<Linear> MakeReferenceLinear(std::span<const WeightSource> parts,
                                            std::span<const float> bias) {
  std::vector<Part> made;
  for (const WeightSource& source : parts) {
    made.push_back(NeedsDense(source) ? MakeDensePart(source) : MakeCodedPart(source));
  }
  std::optional<array> bias_array;
  if (!bias.empty()) {
    bias_array = array(bias.data(), Shape{static_cast<int>(bias.size())});
  }
  return std::make_unique<ReferenceLinear>(std::move(made), std::move(bias_array),
                                           parts.front().n_in);
}

}  // namespace ops::linear
