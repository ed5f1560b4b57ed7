#include "models/shared_rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
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

// Divides each frequency by its number in `factors`. Errors name `name`.
Result<void> DivideBy(const Json& factors, std::string_view name, std::vector<float>& inv_freq) {
  if (!factors.is_array() || factors.size() != inv_freq.size()) {
    return Fail(ErrorCode::kBadModel,
                fmt::format("`{}` has {} factors, but a head has {} frequencies.", name,
                            factors.size(), inv_freq.size()));
  }
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const double factor = factors[i].is_number() ? factors[i].get<double>() : 0.0;
    if (!(factor > 0)) {
      return Fail(ErrorCode::kBadModel, fmt::format("`{}` must hold numbers above 0.", name));
    }
    inv_freq[i] = static_cast<float>(inv_freq[i] / factor);
  }
  return {};
}

bool IsLongRope(const Json& record) {
  const std::string type = record.value("rope_type", record.value("type", std::string()));
  // Phi-3's first checkpoints call it otherwise.
  return type == "longrope" || type == "su" || (type == "yarn" && record.contains("long_factor"));
}

// LongRoPE (Ding et al. 2024; transformers' modeling_rope_utils): every frequency has a divisor of
// its own, "long_factor" for models that were extended and "short_factor" within the context they
// were first trained for. transformers changes from one to the other when a sequence outgrows that
// context, which would make the K of its first tokens wrong; so the model's context decides, once,
// as in mlx-lm and vLLM.
Result<void> ApplyLongRope(const Json& config, const Json& record, ops::RopeSpec& spec) {
  ConfigReader reader(config);
  ConfigReader record_reader(record);
  const double original = record.contains("original_max_position_embeddings")
                              ? record_reader.Positive("original_max_position_embeddings")
                              : reader.Positive("original_max_position_embeddings");
  const double longest = reader.Positive("max_position_embeddings");
  const double factor = record_reader.Positive("factor", longest / original);
  const double usual = factor <= 1.0 || original <= 1.0
                           ? 1.0
                           : std::sqrt(1.0 + std::log(factor) / std::log(original));
  spec.attention_factor = static_cast<float>(record_reader.Positive("attention_factor", usual));
  for (const ConfigReader* each : {&reader, &record_reader}) {
    if (Result<void> read = each->Check(); !read) {
      return Fail(read.error());
    }
  }
  const char* const key = longest > original ? "long_factor" : "short_factor";
  const Json none = Json::array();
  const auto factors = record.find(key);
  return DivideBy(factors == record.end() ? none : *factors, key, spec.inv_freq);
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
        "linear, llama3, yarn and longrope.",
        type));
  }
}

Result<void> ApplyFactors(const Json& config, std::vector<float>& inv_freq) {
  const auto factors = config.find("rope_freq_factors");
  if (factors == config.end() || !factors->is_array()) {
    return {};
  }
  return DivideBy(*factors, "rope_freqs.weight", inv_freq);
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
  const bool long_rope = scales && IsLongRope(*record);
  if (!long_rope) {
    ReadScaling(record_reader, scaling);
  }
  if (Result<void> read = record_reader.Check(); !read) {
    return Fail(read.error());
  }
  ops::RopeSpec spec = ops::MakeRopeSpec(scaling);
  if (long_rope) {
    if (Result<void> applied = ApplyLongRope(config, *record, spec); !applied) {
      return Fail(applied.error());
    }
  }
  if (options.scaled) {
    if (Result<void> applied = ApplyFactors(config, spec.inv_freq); !applied) {
      return Fail(applied.error());
    }
  }
  return spec;
}

}  // namespace models
