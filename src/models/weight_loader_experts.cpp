// WeightLoader: what mixtures of experts and latent attention need.

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "models/weight_loader.h"

namespace models {

Result<std::unique_ptr<ops::Linear>> WeightLoader::FloatLinear(const Part& part, int n_in) {
  const Result<ops::WeightSource> source = MakeSource(part, n_in);
  if (!source) {
    return Fail(source.error());
  }
  const Result<std::vector<float>> bias = TakeBiases({part});
  if (!bias) {
    return Fail(bias.error());
  }
  Result<std::unique_ptr<ops::Linear>> linear = ops::MakeFloatLinear(context_, *source, *bias);
  if (linear) {
    loaded_bytes_ += (*linear)->bytes();
    DoneWith(part.name);
  }
  return linear;
}

Result<ops::ExpertSource> WeightLoader::MakeExpert(const ExpertParts& parts,
                                                   const ExpertSizes& sizes) {
  ops::ExpertSource expert;
  struct Matrix {
    const Part& part;
    int n_in;
    ops::WeightSource& source;
    std::vector<float>& bias;
  };
  for (const Matrix& matrix :
       {Matrix{parts.gate, sizes.hidden, expert.gate, expert.gate_bias},
        Matrix{parts.up, sizes.hidden, expert.up, expert.up_bias},
        Matrix{parts.down, sizes.intermediate, expert.down, expert.down_bias}}) {
    Result<ops::WeightSource> source = MakeSource(matrix.part, matrix.n_in);
    if (!source) {
      return Fail(source.error());
    }
    Result<std::vector<float>> bias = TakeBiases({matrix.part});
    if (!bias) {
      return Fail(bias.error());
    }
    matrix.source = std::move(*source);
    matrix.bias = std::move(*bias);
  }
  return expert;
}

Result<std::unique_ptr<ops::Experts>> WeightLoader::Experts(const std::vector<ExpertParts>& experts,
                                                            const ExpertSizes& sizes) {
  std::vector<ops::ExpertSource> sources;
  std::set<std::string> names;  // a tensor may hold all experts
  for (const ExpertParts& parts : experts) {
    Result<ops::ExpertSource> source = MakeExpert(parts, sizes);
    if (!source) {
      return Fail(source.error());
    }
    sources.push_back(std::move(*source));
    names.insert({parts.gate.name, parts.up.name, parts.down.name});
  }
  Result<std::unique_ptr<ops::Experts>> made =
      ops::MakeExperts(context_, sources, sizes.activation);
  if (made) {
    loaded_bytes_ += (*made)->bytes();
    std::ranges::for_each(names, [&](const std::string& name) { DoneWith(name); });
  }
  return made;
}

Result<std::unique_ptr<ops::HeadLinear>> WeightLoader::Heads(const std::vector<Part>& heads,
                                                             int n_in, bool turned) {
  std::vector<ops::WeightSource> sources;
  for (const Part& part : heads) {
    Result<ops::WeightSource> source = MakeSource(part, n_in);
    if (!source) {
      return Fail(source.error());
    }
    sources.push_back(std::move(*source));
  }
  Result<std::unique_ptr<ops::HeadLinear>> made = turned
                                                      ? ops::MakeTurnedHeadLinear(context_, sources)
                                                      : ops::MakeHeadLinear(context_, sources);
  if (made) {
    loaded_bytes_ += (*made)->bytes();
  }
  return made;
}

}  // namespace models
