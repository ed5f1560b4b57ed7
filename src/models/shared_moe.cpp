#include "models/shared_moe.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace models {
namespace {

namespace mx = mlx::core;

using Part = WeightLoader::Part;
using ExpertParts = WeightLoader::ExpertParts;

// How a checkpoint stores the experts' matrices.
enum class ExpertLayout {
  kApart,        // three tensors an expert
  kStacked,      // each matrix of all experts in one tensor: mlx-lm, llama.cpp
  kFused,        // stacked, [gate | up] of an expert together: transformers 5
  kInterleaved,  // stacked, rows of gate and up in turns, MXFP4: gpt-oss
};

struct ExpertPlace {
  ExpertLayout layout = ExpertLayout::kApart;
  std::string prefix;
};

ExpertPlace FindExperts(const WeightLoader& weights, const std::string& prefix) {
  const std::string experts = prefix + "experts.";
  for (const std::string& stack : {prefix + "switch_mlp.", experts}) {
    if (weights.Has(stack + "gate_proj")) {
      return {.layout = ExpertLayout::kStacked, .prefix = stack};
    }
  }
  if (!weights.ShapeOf(experts + "gate_up_proj").empty()) {
    return {.layout = ExpertLayout::kFused, .prefix = experts};
  }
  if (!weights.ShapeOf(experts + "gate_up_proj_blocks").empty()) {
    return {.layout = ExpertLayout::kInterleaved, .prefix = experts};
  }
  return {.layout = ExpertLayout::kApart, .prefix = experts};
}

// Expert `number` in stacked tensors.
ExpertParts StackedExpert(const ExpertPlace& place, const MoeOptions& options, int number) {
  const int inner = options.intermediate_size;
  ExpertParts parts{.gate = {.name = place.prefix + "gate_proj", .n_out = inner},
                    .up = {.name = place.prefix + "up_proj", .n_out = inner},
                    .down = {.name = place.prefix + "down_proj", .n_out = options.hidden_size}};
  const bool in_turns = place.layout == ExpertLayout::kInterleaved;
  if (place.layout != ExpertLayout::kStacked) {
    parts.gate.name = parts.up.name = place.prefix + "gate_up_proj";
    parts.gate.n_stored = parts.up.n_stored = 2 * inner;
    parts.gate.source_row = [in_turns](int row) { return in_turns ? 2 * row : row; };
    parts.up.source_row = [in_turns, inner](int row) {
      return in_turns ? 2 * row + 1 : inner + row;
    };
  }
  for (Part* each : {&parts.gate, &parts.up, &parts.down}) {
    each->expert = number;
    each->n_experts = options.routing.n_experts;
    if (place.layout != ExpertLayout::kStacked) {
      each->ending = in_turns ? "_blocks" : "";
    }
  }
  return parts;
}

std::vector<ExpertParts> ExpertTensors(const WeightLoader& weights, const std::string& prefix,
                                       const MoeOptions& options) {
  const ExpertPlace place = FindExperts(weights, prefix);
  std::vector<ExpertParts> experts;
  for (int e = 0; e < options.routing.n_experts; ++e) {
    if (place.layout != ExpertLayout::kApart) {
      experts.push_back(StackedExpert(place, options, e));
      continue;
    }
    const std::string own = place.prefix + std::to_string(e) + ".";
    const int inner = options.intermediate_size;
    experts.push_back({.gate = {.name = own + options.gate_name, .n_out = inner},
                       .up = {.name = own + options.up_name, .n_out = inner},
                       .down = {.name = own + options.down_name, .n_out = options.hidden_size}});
  }
  return experts;
}

Result<void> LoadShared(WeightLoader& weights, const std::string& prefix, const MoeOptions& options,
                        MoeBlock& block) {
  if (options.shared_name.empty()) {
    return {};
  }
  Result<GatedMlp> shared = LoadGatedMlp(weights, prefix + options.shared_name + ".",
                                         {.hidden_size = options.hidden_size,
                                          .intermediate_size = options.shared_intermediate_size,
                                          .activation = options.activation});
  if (!shared) {
    return Fail(shared.error());
  }
  block.shared = std::move(*shared);
  if (options.shared_gate_name.empty()) {
    return {};
  }
  Result<std::unique_ptr<ops::Linear>> gate = weights.FloatLinear(
      {.name = prefix + options.shared_gate_name, .n_out = 1}, options.hidden_size);
  if (!gate) {
    return Fail(gate.error());
  }
  block.shared_gate = std::move(*gate);
  return {};
}

}  // namespace

mx::array MoeBlock::Apply(const ops::Context& context, const mx::array& x) const {
  const mx::array routed = (*experts)(x, ops::Route(context, routing, (*router)(x), correction));
  if (!shared) {
    return routed;
  }
  return ops::AddGated(context, routed, shared->Apply(context, x),
                       shared_gate ? std::optional((*shared_gate)(x)) : std::nullopt);
}

Result<MoeBlock> LoadMoe(WeightLoader& weights, const std::string& prefix,
                         const MoeOptions& options) {
  MoeBlock block;
  block.routing = options.routing;
  // A choice hangs on small differences: its inputs are not rounded, nor are stored codes.
  Result<std::unique_ptr<ops::Linear>> router = weights.FloatLinear(
      {.name = prefix + options.router_name, .n_out = options.routing.n_experts},
      options.hidden_size);
  if (!router) {
    return Fail(router.error());
  }
  block.router = std::move(*router);
  if (!options.correction_name.empty()) {
    // GGUF's names have a dot before "bias".
    std::string name = prefix + options.correction_name;
    if (weights.ShapeOf(name).empty() && name.ends_with("_bias")) {
      name.replace(name.size() - 5, 1, ".");
    }
    const Result<std::vector<float>> correction =
        weights.Values(name, {{options.routing.n_experts}});
    if (!correction) {
      return Fail(correction.error());
    }
    block.correction = mx::array(correction->begin(), {options.routing.n_experts}, mx::float32);
  }
  Result<std::unique_ptr<ops::Experts>> experts = weights.Experts(
      ExpertTensors(weights, prefix, options), {.hidden = options.hidden_size,
                                                .intermediate = options.intermediate_size,
                                                .activation = options.activation});
  if (!experts) {
    return Fail(experts.error());
  }
  block.experts = std::move(*experts);
  if (Result<void> shared = LoadShared(weights, prefix, options, block); !shared) {
    return Fail(shared.error());
  }
  return block;
}

Result<FeedForward> LoadFeedForward(WeightLoader& weights, const std::string& prefix,
                                    const MoeOptions* moe, const GatedMlpOptions& dense) {
  FeedForward mlp;
  if (moe != nullptr) {
    Result<MoeBlock> block = LoadMoe(weights, prefix, *moe);
    if (!block) {
      return Fail(block.error());
    }
    mlp.moe = std::move(*block);
    return mlp;
  }
  Result<GatedMlp> block = LoadGatedMlp(weights, prefix, dense);
  if (!block) {
    return Fail(block.error());
  }
  mlp.dense = std::move(*block);
  return mlp;
}

std::vector<bool> ReadSparseLayers(const Json& config, ConfigReader& reader, int n_layers) {
  const int step = reader.Size("decoder_sparse_step", 1);
  std::vector<bool> is_sparse;
  for (int i = 0; i < n_layers; ++i) {
    is_sparse.push_back((i + 1) % step == 0);
  }
  const auto dense = config.find("mlp_only_layers");
  if (dense == config.end() || dense->is_null()) {
    return is_sparse;
  }
  for (const Json& layer : *dense) {
    if (!layer.is_number_unsigned() || layer.get<std::size_t>() >= is_sparse.size()) {
      reader.Refuse(
          fmt::format("`mlp_only_layers` in the configuration must list layers below {}, got {}.",
                      n_layers, DumpJson(*dense)));
      break;
    }
    is_sparse[layer.get<std::size_t>()] = false;
  }
  return is_sparse;
}

void CheckRouting(ConfigReader& reader, const ops::RoutingSpec& routing) {
  constexpr int kMostExperts = 1 << 16;  // far above every model
  if (routing.n_experts > kMostExperts || routing.n_chosen > routing.n_experts) {
    reader.Refuse(fmt::format(
        "A token must choose at most as many experts as there are, and there can be at most {}; "
        "the configuration asks for {} of {}.",
        kMostExperts, routing.n_chosen, routing.n_experts));
  }
  if (routing.n_groups == 1) {
    return;
  }
  const int size = routing.n_experts / routing.n_groups;
  if (routing.n_experts % routing.n_groups != 0 || size < 2 ||
      routing.n_chosen_groups > routing.n_groups ||
      routing.n_chosen_groups * size < routing.n_chosen) {
    reader.Refuse(fmt::format(
        "The configuration asks for {} of {} experts out of {} of {} groups, which cannot be "
        "chosen.",
        routing.n_chosen, routing.n_experts, routing.n_chosen_groups, routing.n_groups));
  }
}

}  // namespace models
