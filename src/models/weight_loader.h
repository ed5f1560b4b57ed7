#pragma once

#include <mlx/array.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/model_source.h"
#include "ops/linear/head_linear.h"
#include "ops/linear/linear.h"
#include "ops/moe/experts.h"

namespace models {

// Turns the tensors of a ModelSource into what ops/ computes with, checking name, shape and format.
// Names are without the ".weight" ending. Remembers what was taken, so that surplus tensors can be
// named. Knows MLX's quantization records (config["quantization"]: bits, group_size, per-tensor
// overrides, false).
class WeightLoader {
 public:
  // `on_progress` is called with the stored bytes read so far, after each tensor.
  WeightLoader(const ops::Context& context, const model_files::ModelSource& source,
               std::function<void(std::uint64_t)> on_progress);

  // Whether "<name>.weight" is there.
  [[nodiscard]] bool Has(std::string_view name) const;

  // Rows of "<name>.weight" as stored (the vocabulary, where the config does not tell), or nothing.
  [[nodiscard]] std::optional<int> Rows(std::string_view name) const;

  // A matrix of `parts` stacked along the outputs. "<name>.bias" of a part is added where present,
  // and must be there where the part is `biased`.
  struct Part {
    std::string name;
    int n_out = 0;
    // Where the part is some rows of its tensor, or those in another order: the tensor's rows, and
    // which of them is row r.
    int n_stored = 0;  // 0: n_out
    std::function<int(int)> source_row = {};
    bool biased = false;
    // Where the tensor holds one such matrix for each of n_experts: which of them.
    int expert = 0;
    int n_experts = 0;  // 0: the tensor is the matrix
    // Of the tensor's name. Where it is not ".weight" the bias is "<name>_bias".
    std::string ending = ".weight";
  };
  [[nodiscard]] Result<std::unique_ptr<ops::Linear>> Linear(const std::vector<Part>& parts,
                                                            int n_in);

  // A matrix whose stored values are multiplied with unrounded: what chooses experts.
  [[nodiscard]] Result<std::unique_ptr<ops::Linear>> FloatLinear(const Part& part, int n_in);

  // The routed experts of one layer, each of three matrices.
  struct ExpertParts {
    Part gate;
    Part up;
    Part down;
  };
  struct ExpertSizes {
    int hidden = 0;
    int intermediate = 0;
    ops::Activation activation = ops::Activation::kSilu;
  };
  [[nodiscard]] Result<std::unique_ptr<ops::Experts>> Experts(
      const std::vector<ExpertParts>& experts, const ExpertSizes& sizes);

  // A matrix for each head, and the same with each turned round (see ops::MakeTurnedHeadLinear).
  [[nodiscard]] Result<std::unique_ptr<ops::HeadLinear>> Heads(const std::vector<Part>& heads,
                                                               int n_in, bool turned);

  // A norm weight [size] as float32. `zero_centred`: the model multiplies by 1 + w; the 1 is added
  // here unless the file already has it.
  struct NormOptions {
    bool zero_centred = false;
  };
  [[nodiscard]] Result<mlx::core::array> Norm(const std::string& name, int size,
                                              NormOptions options);
  [[nodiscard]] Result<mlx::core::array> Norm(const std::string& name, int size) {
    return Norm(name, size, NormOptions{});
  }

  // The tensor called `name` (in full) as float32, flat. REQUIRES: it has one of `shapes`, else
  // kBadModel that names the first.
  [[nodiscard]] Result<std::vector<float>> Values(
      const std::string& name, const std::vector<std::vector<std::int64_t>>& shapes);

  // Shape of the tensor called `name` (in full) as stored, empty when it is not there.
  [[nodiscard]] std::vector<std::int64_t> ShapeOf(const std::string& name) const;

  // After loading: kBadModel naming the first tensors that nobody took, except those `ignorable`
  // accepts (rotary inv_freq buffers and the like are always accepted).
  [[nodiscard]] Result<void> CheckAllTaken(
      const std::function<bool(std::string_view)>& ignorable = {}) const;

  // Memory held by everything made so far, in bytes.
  [[nodiscard]] std::uint64_t loaded_bytes() const { return loaded_bytes_; }

 private:
  // The tensor called `name`, marked as taken.
  [[nodiscard]] Result<const model_files::TensorView*> Take(const std::string& name);
  [[nodiscard]] Result<ops::WeightSource> MakeSource(const Part& part, int n_in);
  [[nodiscard]] Result<ops::WeightSource> MakeAffineSource(const Part& part, int n_in,
                                                           const model_files::TensorView& words);
  // Codes `words` and E8M0 exponents in a tensor beside them: MLX's mode mxfp4, or gpt-oss's
  // blocks.
  [[nodiscard]] Result<ops::WeightSource> MakeMxfp4Source(const Part& part, int n_in,
                                                          const model_files::TensorView& words);
  // E4M3 with the float32 scales of "<name>_scale_inv".
  [[nodiscard]] Result<ops::WeightSource> MakeF8Source(const Part& part, int n_in,
                                                       const model_files::TensorView& view);
  // Output row r of `name` is stored row result(r); empty for as stored.
  [[nodiscard]] std::function<int(int)> RowOrder(const Part& part, const std::string& name) const;
  // Adds the biases of `parts` one after the other; parts without one give zeros. Empty when none
  // has one.
  [[nodiscard]] Result<std::vector<float>> TakeBiases(const std::vector<Part>& parts);
  [[nodiscard]] Result<ops::ExpertSource> MakeExpert(const ExpertParts& parts,
                                                     const ExpertSizes& sizes);
  // Gives back the pages of what a part took and reports progress.
  void DoneWith(const std::string& name);
  void DropTensor(const std::string& name);

  const ops::Context& context_;
  const model_files::ModelSource& source_;
  std::function<void(std::uint64_t)> on_progress_;
  std::set<std::string, std::less<>> taken_;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t loaded_bytes_ = 0;
};

}  // namespace models
