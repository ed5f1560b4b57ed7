#include "models/weight_loader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <utility>

#include "models/shared_quantization.h"
#include "models/shared_tensor_values.h"

namespace models {
namespace {

using model_files::TensorFormat;
using model_files::TensorView;
using ops::WeightFormat;

std::optional<WeightFormat> LinearFormat(TensorFormat format) {
  switch (format) {
    case TensorFormat::kF32:
      return WeightFormat::kF32;
    case TensorFormat::kF16:
      return WeightFormat::kF16;
    case TensorFormat::kBF16:
      return WeightFormat::kBF16;
    case TensorFormat::kQ4_0:
      return WeightFormat::kQ4_0;
    case TensorFormat::kQ4_1:
      return WeightFormat::kQ4_1;
    case TensorFormat::kQ5_0:
      return WeightFormat::kQ5_0;
    case TensorFormat::kQ5_1:
      return WeightFormat::kQ5_1;
    case TensorFormat::kQ8_0:
      return WeightFormat::kQ8_0;
    case TensorFormat::kQ2_K:
      return WeightFormat::kQ2_K;
    case TensorFormat::kQ3_K:
      return WeightFormat::kQ3_K;
    case TensorFormat::kQ4_K:
      return WeightFormat::kQ4_K;
    case TensorFormat::kQ5_K:
      return WeightFormat::kQ5_K;
    case TensorFormat::kQ6_K:
      return WeightFormat::kQ6_K;
    case TensorFormat::kIQ4_NL:
      return WeightFormat::kIQ4_NL;
    case TensorFormat::kIQ4_XS:
      return WeightFormat::kIQ4_XS;
    case TensorFormat::kMxfp4:
      return WeightFormat::kMxfp4;
    default:
      return std::nullopt;
  }
}

std::optional<ops::ScaleFormat> AsScaleFormat(TensorFormat format) {
  switch (format) {
    case TensorFormat::kF32:
      return ops::ScaleFormat::kF32;
    case TensorFormat::kF16:
      return ops::ScaleFormat::kF16;
    case TensorFormat::kBF16:
      return ops::ScaleFormat::kBF16;
    default:
      return std::nullopt;
  }
}

tl::unexpected<Error> WrongShape(const TensorView& tensor,
                                 const std::vector<std::int64_t>& expected) {
  return Fail(
      ErrorCode::kBadModel,
      fmt::format("Tensor `{}` has the shape [{}], but the configuration asks for [{}].",
                  tensor.stored_name, fmt::join(tensor.shape, ", "), fmt::join(expected, ", ")));
}

tl::unexpected<Error> UnsupportedFormat(const TensorView& tensor) {
  return Fail(
      ErrorCode::kBadModel,
      fmt::format(
          "Tensor `{}` is stored as {}, which is not supported yet; supported are F32, F16, BF16, "
          "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4, "
          "F8_E4M3 and MLX affine 2 to 8 bits.",
          tensor.stored_name, tensor.format_name));
}

// Of gpt-oss's MXFP4 codes.
constexpr std::string_view kBlocksEnding = "_blocks";

std::int64_t StoredRows(const WeightLoader::Part& part) {
  return part.n_stored == 0 ? part.n_out : part.n_stored;
}

// Shape of the tensor that holds a part of this shape.
std::vector<std::int64_t> StoredShape(const WeightLoader::Part& part,
                                      std::vector<std::int64_t> shape) {
  if (part.n_experts > 0) {
    shape.insert(shape.begin(), part.n_experts);
  }
  return shape;
}

// The part's own bytes of its tensor's.
std::span<const std::byte> BytesOf(const WeightLoader::Part& part,
                                   std::span<const std::byte> data) {
  if (part.n_experts == 0) {
    return data;
  }
  const std::size_t size = data.size() / static_cast<std::size_t>(part.n_experts);
  return data.subspan(size * static_cast<std::size_t>(part.expert), size);
}

// Buffers that old checkpoints carry and every loader computes itself.
bool IsComputedBuffer(std::string_view name) {
  return name.ends_with("rotary_emb.inv_freq") || name.ends_with("rotary_emb.cos_cached") ||
         name.ends_with("rotary_emb.sin_cached") || name.ends_with("rope_freqs.weight");
}

}  // namespace

WeightLoader::WeightLoader(const ops::Context& context, const model_files::ModelSource& source,
                           std::function<void(std::uint64_t)> on_progress)
    : context_(context), source_(source), on_progress_(std::move(on_progress)) {}

bool WeightLoader::Has(std::string_view name) const {
  return source_.tensors.contains(std::string(name) + ".weight");
}

std::optional<int> WeightLoader::Rows(std::string_view name) const {
  const auto found = source_.tensors.find(std::string(name) + ".weight");
  if (found == source_.tensors.end() || found->second.shape.empty() ||
      found->second.shape[0] > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return static_cast<int>(found->second.shape[0]);
}

Result<const TensorView*> WeightLoader::Take(const std::string& name) {
  const auto found = source_.tensors.find(name);
  if (found == source_.tensors.end()) {
    return Fail(
        ErrorCode::kBadModel,
        fmt::format("The model `{}` lacks the tensor `{}`, which its configuration asks for.",
                    source_.name, name));
  }
  taken_.insert(name);
  return &found->second;
}

std::vector<std::int64_t> WeightLoader::ShapeOf(const std::string& name) const {
  const auto found = source_.tensors.find(name);
  return found == source_.tensors.end() ? std::vector<std::int64_t>() : found->second.shape;
}

Result<std::vector<float>> WeightLoader::Values(
    const std::string& name, const std::vector<std::vector<std::int64_t>>& shapes) {
  const Result<const TensorView*> tensor = Take(name);
  if (!tensor) {
    return Fail(tensor.error());
  }
  if (std::ranges::find(shapes, (*tensor)->shape) == shapes.end()) {
    return WrongShape(**tensor, shapes.front());
  }
  Result<std::vector<float>> values = ReadFloats(**tensor);
  if (values) {
    loaded_bytes_ += values->size() * sizeof(float);
    DropTensor(name);
  }
  return values;
}

std::function<int(int)> WeightLoader::RowOrder(const Part& part, const std::string& name) const {
  if (part.source_row) {
    return part.source_row;
  }
  const int n_out = part.n_out;
  const auto permuted = source_.permuted_heads.find(name);
  if (permuted == source_.permuted_heads.end() || permuted->second <= 0 ||
      n_out % (2 * permuted->second) != 0) {
    return {};
  }
  // llama.cpp's converter turns a head's rows from (half, i) into (i, half), for interleaved RoPE
  // pairs.
  const int head_dim = n_out / permuted->second;
  return [head_dim](int row) {
    const int in_head = row % head_dim;
    const int half = in_head / (head_dim / 2);
    const int pair = in_head % (head_dim / 2);
    return row - in_head + 2 * pair + half;
  };
}

Result<ops::WeightSource> WeightLoader::MakeAffineSource(const Part& part, int n_in,
                                                         const TensorView& words) {
  const Result<QuantizationRecord> record = FindQuantization(source_.config, part.name);
  if (!record) {
    return Fail(record.error());
  }
  if (record->mxfp4) {
    return MakeMxfp4Source(part, n_in, words);
  }
  const Result<const TensorView*> scales = Take(part.name + ".scales");
  if (!scales) {
    return Fail(scales.error());
  }
  const Result<const TensorView*> biases = Take(part.name + ".biases");
  if (!biases) {
    return Fail(biases.error());
  }
  const int bits = record->bits;
  const int group_size = record->group_size;
  const std::int64_t n_out = StoredRows(part);
  const std::vector<std::int64_t> words_shape =
      StoredShape(part, {n_out, std::int64_t{n_in} * bits / 32});
  if (words.shape != words_shape) {
    return WrongShape(words, words_shape);
  }
  const std::vector<std::int64_t> scales_shape = StoredShape(part, {n_out, n_in / group_size});
  for (const TensorView* tensor : {*scales, *biases}) {
    if (tensor->shape != scales_shape) {
      return WrongShape(*tensor, scales_shape);
    }
    if (!AsScaleFormat(tensor->format) || tensor->format != (*scales)->format) {
      return UnsupportedFormat(*tensor);
    }
  }
  return ops::WeightSource{.name = words.stored_name,
                           .format = WeightFormat::kMlxAffine,
                           .n_out = part.n_out,
                           .n_in = n_in,
                           .data = BytesOf(part, words.data),
                           .scales = BytesOf(part, (*scales)->data),
                           .biases = BytesOf(part, (*biases)->data),
                           .scale_format = *AsScaleFormat((*scales)->format),
                           .bits = bits,
                           .group_size = group_size,
                           .source_row = part.source_row};
}

Result<ops::WeightSource> WeightLoader::MakeMxfp4Source(const Part& part, int n_in,
                                                        const TensorView& words) {
  constexpr int kGroup = 32;
  const bool blocks = words.format == TensorFormat::kU8;
  const Result<const TensorView*> scales = Take(part.name + (blocks ? "_scales" : ".scales"));
  if (!scales) {
    return Fail(scales.error());
  }
  const std::int64_t rows = StoredRows(part);
  const std::vector<std::int64_t> words_shape =
      blocks ? StoredShape(part, {rows, n_in / kGroup, kGroup / 2})
             : StoredShape(part, {rows, n_in / 8});
  if (words.shape != words_shape) {
    return WrongShape(words, words_shape);
  }
  const std::vector<std::int64_t> scales_shape = StoredShape(part, {rows, n_in / kGroup});
  if ((*scales)->shape != scales_shape) {
    return WrongShape(**scales, scales_shape);
  }
  if ((*scales)->format != TensorFormat::kU8) {
    return UnsupportedFormat(**scales);
  }
  return ops::WeightSource{.name = words.stored_name,
                           .format = WeightFormat::kMlxMxfp4,
                           .n_out = part.n_out,
                           .n_in = n_in,
                           .data = BytesOf(part, words.data),
                           .scales = BytesOf(part, (*scales)->data),
                           .source_row = part.source_row};
}

Result<ops::WeightSource> WeightLoader::MakeF8Source(const Part& part, int n_in,
                                                     const TensorView& view) {
  const std::string name = part.name + part.ending;
  const Result<const TensorView*> scales = Take(name + "_scale_inv");
  if (!scales) {
    return Fail(scales.error());
  }
  const std::int64_t rows = StoredRows(part);
  const std::vector<std::int64_t> shape = StoredShape(part, {rows, n_in});
  if (view.shape != shape) {
    return WrongShape(view, shape);
  }
  constexpr std::int64_t kBlock = 128;
  const std::vector<std::int64_t> scales_shape =
      StoredShape(part, {(rows + kBlock - 1) / kBlock, (n_in + kBlock - 1) / kBlock});
  if ((*scales)->shape != scales_shape) {
    return WrongShape(**scales, scales_shape);
  }
  if ((*scales)->format != TensorFormat::kF32) {
    return UnsupportedFormat(**scales);
  }
  return ops::WeightSource{.name = view.stored_name,
                           .format = WeightFormat::kF8E4M3,
                           .n_out = part.n_out,
                           .n_in = n_in,
                           .data = BytesOf(part, view.data),
                           .scales = BytesOf(part, (*scales)->data),
                           .source_row = RowOrder(part, name)};
}

Result<ops::WeightSource> WeightLoader::MakeSource(const Part& part, int n_in) {
  const std::string name = part.name + part.ending;
  const Result<const TensorView*> tensor = Take(name);
  if (!tensor) {
    return Fail(tensor.error());
  }
  const TensorView& view = **tensor;
  if (Result<void> method = CheckQuantizationMethod(source_.config); !method) {
    return Fail(method.error());
  }
  if (view.format == TensorFormat::kU32) {
    return MakeAffineSource(part, n_in, view);
  }
  if (view.format == TensorFormat::kU8 && part.ending == kBlocksEnding) {
    return MakeMxfp4Source(part, n_in, view);
  }
  if (view.format == TensorFormat::kF8E4M3) {
    return MakeF8Source(part, n_in, view);
  }
  const std::optional<WeightFormat> format = LinearFormat(view.format);
  if (!format) {
    return UnsupportedFormat(view);
  }
  const std::vector<std::int64_t> expected = StoredShape(part, {StoredRows(part), n_in});
  if (view.shape != expected) {
    return WrongShape(view, expected);
  }
  return ops::WeightSource{.name = view.stored_name,
                           .format = *format,
                           .n_out = part.n_out,
                           .n_in = n_in,
                           .data = BytesOf(part, view.data),
                           .scales = {},
                           .biases = {},
                           .source_row = RowOrder(part, name)};
}

Result<std::vector<float>> WeightLoader::TakeBiases(const std::vector<Part>& parts) {
  const auto bias_name = [](const Part& part) {
    return part.name + (part.ending == ".weight" ? ".bias" : "_bias");
  };
  const bool any = std::ranges::any_of(parts, [&](const Part& part) {
    return part.biased || source_.tensors.contains(bias_name(part));
  });
  std::vector<float> all;
  if (!any) {
    return all;
  }
  for (const Part& part : parts) {
    const std::string name = bias_name(part);
    const auto n_out = static_cast<std::size_t>(part.n_out);
    if (!part.biased && !source_.tensors.contains(name)) {
      all.resize(all.size() + n_out, 0.0F);
      continue;
    }
    const Result<const TensorView*> tensor = Take(name);
    if (!tensor) {
      return Fail(tensor.error());
    }
    const std::vector<std::int64_t> expected = StoredShape(part, {StoredRows(part)});
    if ((*tensor)->shape != expected) {
      return WrongShape(**tensor, expected);
    }
    const Result<std::vector<float>> values = ReadFloats(**tensor);
    if (!values) {
      return Fail(values.error());
    }
    const std::function<int(int)> source_row = RowOrder(part, name);
    const std::size_t first =
        static_cast<std::size_t>(part.expert) * static_cast<std::size_t>(StoredRows(part));
    for (int row = 0; row < part.n_out; ++row) {
      all.push_back(
          (*values)[first + static_cast<std::size_t>(source_row ? source_row(row) : row)]);
    }
  }
  return all;
}

void WeightLoader::DropTensor(const std::string& name) {
  const auto found = source_.tensors.find(name);
  if (found == source_.tensors.end() || !taken_.contains(name)) {
    return;
  }
  const TensorView& tensor = found->second;
  if (tensor.file) {
    tensor.file->DropPages(tensor.data);
  }
  read_bytes_ += tensor.data.size();
}

void WeightLoader::DoneWith(const std::string& name) {
  for (const char* ending : {".weight", ".scales", ".biases", ".bias", "", ".weight_scale_inv",
                             "_blocks", "_scales", "_bias"}) {
    DropTensor(name + ending);
  }
  if (on_progress_) {
    on_progress_(read_bytes_);
  }
}

Result<std::unique_ptr<ops::Linear>> WeightLoader::Linear(const std::vector<Part>& parts,
                                                          int n_in) {
  std::vector<ops::WeightSource> sources;
  for (const Part& part : parts) {
    Result<ops::WeightSource> source = MakeSource(part, n_in);
    if (!source) {
      return Fail(source.error());
    }
    sources.push_back(std::move(*source));
  }
  const Result<std::vector<float>> biases = TakeBiases(parts);
  if (!biases) {
    return Fail(biases.error());
  }
  Result<std::unique_ptr<ops::Linear>> linear = ops::MakeLinear(context_, sources, *biases);
  if (!linear) {
    return linear;
  }
  loaded_bytes_ += (*linear)->bytes();
  for (const Part& part : parts) {
    DoneWith(part.name);
  }
  return linear;
}

Result<mlx::core::array> WeightLoader::Norm(const std::string& name, int size,
                                            NormOptions options) {
  const Result<const TensorView*> tensor = Take(name + ".weight");
  if (!tensor) {
    return Fail(tensor.error());
  }
  if ((*tensor)->shape != std::vector<std::int64_t>{size}) {
    return WrongShape(**tensor, {size});
  }
  Result<std::vector<float>> values = ReadFloats(**tensor);
  if (!values) {
    return Fail(values.error());
  }
  if (options.zero_centred && !source_.norm_weights_include_one) {
    std::ranges::for_each(*values, [](float& value) { value += 1.0F; });
  }
  loaded_bytes_ += values->size() * sizeof(float);
  DoneWith(name);
  return mlx::core::array(values->begin(), {size}, mlx::core::float32);
}

Result<void> WeightLoader::CheckAllTaken(
    const std::function<bool(std::string_view)>& ignorable) const {
  constexpr std::size_t kNamed = 4;  // enough to recognise what they belong to
  std::vector<std::string> surplus;
  for (const auto& [name, tensor] : source_.tensors) {
    if (!taken_.contains(name) && !IsComputedBuffer(name) && !(ignorable && ignorable(name))) {
      surplus.push_back("`" + tensor.stored_name + "`");
    }
  }
  if (surplus.empty()) {
    return {};
  }
  const std::size_t count = surplus.size();
  surplus.resize(std::min(count, kNamed));
  return Fail(
      ErrorCode::kBadModel,
      fmt::format(
          "The model `{}` holds {} tensor{} that a model of type `{}` with its configuration does "
          "not have: {}{}.",
          source_.name, count, count == 1 ? "" : "s", source_.model_type, fmt::join(surplus, ", "),
          count > kNamed ? ", ..." : ""));
}

}  // namespace models
