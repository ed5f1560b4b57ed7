#include "models/shared_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/shared_config.h"
#include "ops/rope/rope_scaling.h"

namespace models {
namespace {

// The object that has the rope fields of this layer type: of "rope_parameters", "rope_scaling", or
// none.
const Json* FindObject(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object() ? &*found : nullptr;
}

const Json* FindParameters(const Json& config, const RopeOptions& options) {
  const Json* all = FindObject(config, "rope_parameters");
  if (all == nullptr) {
    return nullptr;
  }
  const Json* own = FindObject(*all, std::string(options.layer_type).c_str());
  // One record for all layers is the global layers'.
  return own != nullptr || !options.scaled ? own : all;
}

// The kind and numbers of one scaling record; what it lacks keeps its default.
void ReadScaling(ConfigReader& reader, ops::RopeScaling& scaling) {
  const std::string type = reader.Text("rope_type", reader.Text("type", "default"));
  if (type == "default") {
    return;
  }
  scaling.factor = reader.Positive("factor");
  if (type == "linear") {
    scaling.kind = ops::RopeScalingKind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = ops::RopeScalingKind::kLlama3;
    scaling.original_max_position = reader.Positive("original_max_position_embeddings", 8192);
    scaling.low_freq_factor = reader.Positive("low_freq_factor", scaling.low_freq_factor);
    scaling.high_freq_factor = reader.Positive("high_freq_factor", scaling.high_freq_factor);
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      reader.Refuse(fmt::format(
          "`high_freq_factor` of the rope scaling must be above `low_freq_factor`, got {} and {}.",
          scaling.high_freq_factor, scaling.low_freq_factor));
    }
  } else if (type == "yarn") {
    scaling.kind = ops::RopeScalingKind::kYarn;
    scaling.original_max_position = reader.Positive("original_max_position_embeddings");
    scaling.beta_fast = reader.Positive("beta_fast", scaling.beta_fast);
    scaling.beta_slow = reader.Positive("beta_slow", scaling.beta_slow);
    scaling.truncate = reader.Flag("truncate", scaling.truncate);
    const auto optional = [&](std::string_view key) {
      return reader.IsSet(key) ? std::optional(reader.Positive(key)) : std::nullopt;
    };
    scaling.attention_factor = optional("attention_factor");
    scaling.mscale = optional("mscale");
    scaling.mscale_all_dim = optional("mscale_all_dim");
  } else {
    reader.Refuse(fmt::format(
        "The rope scaling `{}` in the configuration is not supported yet; known are default, "
        "linear, llama3 and yarn.",
        type));
  }
}

Result<void> ApplyFactors(const Json& config, std::vector<float>& inv_freq) {
  const auto factors = config.find("rope_freq_factors");
  if (factors == config.end() || !factors->is_array()) {
    return {};
  }
  if (factors->size() != inv_freq.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`rope_freqs.weight` has {} factors, but a head has {} frequencies.",
                            factors->size(), inv_freq.size()));
  }
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double factor = (*factors)[i].is_number() ? (*factors)[i].get<double>() : 0.0;
    if (!(factor > 0)) {
      return Fail(ErrorCode::kBadModel, "`rope_freqs.weight` must hold numbers above 0.");
    }
    inv_freq[i] = static_cast<float>(inv_freq[i] / factor);
  }
  return {};
}

}  // namespace

Result<ops::RopeSpec> ReadRope(const Json& config, const RopeOptions& options) {
  const Json* parameters = FindParameters(config, options);
  const Json* record = parameters != nullptr ? parameters : FindObject(config, "rope_scaling");
  ConfigReader reader(config);
  const Json none = Json::object();
  const bool scales = record != nullptr && (options.scaled || parameters != nullptr);
  ConfigReader record_reader(scales ? *record : none);
  const double old_theta = reader.Positive(options.theta_key, options.default_theta);
  const double theta = record_reader.Positive("rope_theta", old_theta);
  const double partial = record_reader.Positive(
      "partial_rotary_factor", reader.Positive("partial_rotary_factor", options.default_partial));
  // More than the whole head is refused below, however much more.
  const int rotary_dim = static_cast<int>(options.head_dim * std::min(partial, 2.0));
  if (rotary_dim < 2 || rotary_dim % 2 != 0 || rotary_dim > options.head_dim || theta <= 1) {
    reader.Refuse(fmt::format(
        "RoPE must turn an even number of the {} dimensions of a head with a theta above 1, but "
        "the configuration asks for {} dimensions and a theta of {}.",
        options.head_dim, rotary_dim, theta));
  }
  if (Result<void> read = reader.Check(); !read) {
    return Fail(read.error());
  }
  ops::RopeScaling scaling;
  scaling.rotary_dim = rotary_dim;
  scaling.theta = theta;
  ReadScaling(record_reader, scaling);
  if (Result<void> read = record_reader.Check(); !read) {
    return Fail(read.error());
  }
  ops::RopeSpec spec = ops::MakeRopeSpec(scaling);
  if (options.scaled) {
    if (Result<void> applied = ApplyFactors(config, spec.inv_freq); !applied) {
      return Fail(applied.error());
    }
  }
  return spec;
}

}  // namespace models
