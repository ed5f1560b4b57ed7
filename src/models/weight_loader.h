#pragma once

#include <mlx/array.h>

#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model_files/model_source.h"
#include "ops/linear/linear.h"

namespace models {

// Turns the tensors of a ModelSource into what ops/ computes with, checking name, shape and format. Names are
// without the ".weight" ending. Remembers what was taken, so that surplus tensors can be named.
// Knows MLX's quantization records (config["quantization"]: bits, group_size, per-tensor overrides, false).
class WeightLoader {
 public:
  // `on_progress` is called with the stored bytes read so far, after each tensor.
  WeightLoader(const ops::Context& context, const model_files::ModelSource& source,
               std::function<void(std::uint64_t)> on_progress);

  [[nodiscard]] bool Has(std::string_view name) const;

  // A matrix of `names` stacked along the outputs. `n_outs` are their heights.
  // With `optional_bias`, "<name>.bias" of every part is added where present.
  struct Part {
    std::string name;
    int n_out = 0;
  };
  [[nodiscard]] Result<std::unique_ptr<ops::Linear>> Linear(const std::vector<Part>& parts, int n_in);

  // A norm weight [size] as float32. `zero_centred`: the model multiplies by 1 + w; the 1 is added here unless the
  // file already has it.
  struct NormOptions {
    bool zero_centred = false;
  };
  [[nodiscard]] Result<mlx::core::array> Norm(const std::string& name, int size, NormOptions options);
  [[nodiscard]] Result<mlx::core::array> Norm(const std::string& name, int size) {
    return Norm(name, size, NormOptions{});
  }

  // After loading: kBadModel naming the first tensors that nobody took, except those `ignorable` accepts
  // (rotary inv_freq buffers and the like are always accepted).
  [[nodiscard]] Result<void> CheckAllTaken(const std::function<bool(std::string_view)>& ignorable = {}) const;

  // Memory held by everything made so far, in bytes.
  [[nodiscard]] std::uint64_t loaded_bytes() const { return loaded_bytes_; }

 private:
  const ops::Context& context_;
  const model_files::ModelSource& source_;
  std::function<void(std::uint64_t)> on_progress_;
  std::set<std::string, std::less<>> taken_;
  std::uint64_t read_bytes_ = 0;
  std::uint64_t loaded_bytes_ = 0;
};

}  // namespace models
