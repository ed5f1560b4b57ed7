// Experts on the CPU: a step's rows grouped by expert, on the packed matrices of ops/linear.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ops/linear/native_product.h"
#include "ops/moe/make_experts.h"
#include "ops/native_op.h"
#include "ops/vector/aligned_floats.h"
#include "ops/vector/row_kernels.h"
#include "ops/vector/row_split.h"

namespace ops::moe {
namespace {

using linear::NativeProduct;
using mlx::core::array;

// Rows (of a token with one of its experts) whose intermediate values are kept at once: enough for
// two threads to even out, and some megabytes of the last cache level at usual sizes.
constexpr int kWaveRows = 2048;
// As in a product of one matrix: tiles that share a chunk of activations, and tasks a thread.
constexpr int kMaxTaskTiles = 8;
constexpr int kTasksPerThread = 8;
// Below this many values to round one thread is done before a second one has woken up.
constexpr std::ptrdiff_t kSerialValues = 16384;

std::size_t Size(int n) { return static_cast<std::size_t>(n); }

struct Expert {
  NativeProduct gate_up;
  NativeProduct down;
};

// The places of one expert in the order by expert.
struct Group {
  int expert = 0;
  int first = 0;
  int n_rows = 0;
};

// A step's rows in the order of their experts. A place is one row with one of its experts.
struct Plan {
  std::vector<Group> groups;     // ascending by expert, without empty ones
  std::vector<int> row_of;       // [T * k] by place
  std::vector<int> place_of;     // [T, k], ascending by expert in each row
  std::vector<float> weight_of;  // [T * k] by place
};

Plan MakePlan(const std::int32_t* experts, const float* weights, int n_rows, int n_chosen,
              int n_experts) {
  const int n_places = n_rows * n_chosen;
  Plan plan{.groups = {},
            .row_of = std::vector<int>(Size(n_places)),
            .place_of = std::vector<int>(Size(n_places)),
            .weight_of = std::vector<float>(Size(n_places))};
  std::vector<int> next(Size(n_experts) + 1, 0);  // counts, then the next place of each expert
  for (int i = 0; i < n_places; ++i) {
    ++next[Size(experts[i]) + 1];
  }
  for (int e = 0; e < n_experts; ++e) {
    if (next[Size(e) + 1] > 0) {
      plan.groups.push_back({.expert = e, .first = next[Size(e)], .n_rows = next[Size(e) + 1]});
    }
    next[Size(e) + 1] += next[Size(e)];
  }
  for (int i = 0; i < n_places; ++i) {
    const int place = next[Size(experts[i])]++;
    plan.row_of[Size(place)] = i / n_chosen;
    plan.weight_of[Size(place)] = weights[i];
    plan.place_of[Size(i)] = place;
  }
  for (int row = 0; row < n_rows; ++row) {
    const auto first = plan.place_of.begin() + static_cast<std::ptrdiff_t>(row) * n_chosen;
    std::sort(first, first + n_chosen);
  }
  return plan;
}

// Consecutive groups that are computed together.
struct Wave {
  std::span<const Group> groups;
  int first = 0;  // place
  int n_rows = 0;
};

std::vector<Wave> Waves(const std::vector<Group>& groups) {
  std::vector<Wave> waves;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (waves.empty() || waves.back().n_rows + groups[i].n_rows > kWaveRows) {
      waves.push_back({.groups = {&groups[i], 0}, .first = groups[i].first, .n_rows = 0});
    }
    Wave& wave = waves.back();
    wave.groups = {wave.groups.data(), wave.groups.size() + 1};
    wave.n_rows += groups[i].n_rows;
  }
  return waves;
}

// Kept between calls: the page faults of fresh memory would cost more than some of the work.
struct Workspace {
  AlignedFloats inputs;     // [rows, hidden]
  AlignedFloats gate_up;    // [rows, 2 intermediate]
  AlignedFloats activated;  // [rows, intermediate]
  AlignedFloats outputs;    // [rows, hidden]
};

Workspace& ThisThreadsWorkspace() {
  thread_local Workspace workspace;
  return workspace;
}

class NativeExperts final : public Experts {
 public:
  NativeExperts(const Context& context, std::vector<Expert> experts, Activation activation)
      : context_(context),
        experts_(std::move(experts)),
        activation_(activation),
        hidden_(experts_.front().gate_up.n_in()),
        intermediate_(experts_.front().down.n_in()) {}

  int n_experts() const override { return static_cast<int>(experts_.size()); }

  std::uint64_t bytes() const override {
    std::uint64_t sum = 0;
    for (const Expert& expert : experts_) {
      sum += expert.gate_up.bytes() + expert.down.bytes();
    }
    return sum;
  }

  array operator()(const array& x, const Routing& routing) const override {
    return NativeOp({x, routing.experts, routing.weights}, x.shape(), mlx::core::float32,
                    [this](const std::vector<array>& in, std::vector<array>& out) {
                      const int n_rows = in[0].shape(0);
                      const Plan plan = MakePlan(in[1].data<std::int32_t>(), in[2].data<float>(),
                                                 n_rows, in[1].shape(1), n_experts());
                      std::fill_n(out[0].data<float>(), out[0].size(), 0.0F);
                      for (const Wave& wave : Waves(plan.groups)) {
                        Run(plan, wave, in[0].data<float>());
                        Add(plan, wave, n_rows, out[0].data<float>());
                      }
                    });
  }

 private:
  using Inputs = std::vector<NativeProduct::Inputs>;  // by group of a wave
  using ProductOf = NativeProduct Expert::*;

  [[nodiscard]] std::ptrdiff_t PlaceIn(const Wave& wave, const Group& group) const {
    return group.first - wave.first;
  }
  // Fills the workspace's outputs with those of the wave's places.
  void Run(const Plan& plan, const Wave& wave, const float* x) const;
  [[nodiscard]] Inputs Gather(const Plan& plan, const Wave& wave, const float* x,
                              Workspace& workspace) const;
  [[nodiscard]] Inputs Activate(const Wave& wave, Workspace& workspace) const;
  void Multiply(const Wave& wave, ProductOf product, const Inputs& inputs, float* y) const;
  void Add(const Plan& plan, const Wave& wave, int n_rows, float* y) const;
  // task(i) for each group, on the pool where there is work enough.
  void ForEachGroup(const Wave& wave, int row_size, const std::function<void(int)>& task) const;

  Context context_;
  std::vector<Expert> experts_;
  Activation activation_;
  int hidden_;
  int intermediate_;
  // What prepares inputs inside a task, which must not share out work itself.
  mutable ThreadPool serial_{1};
};

void NativeExperts::Run(const Plan& plan, const Wave& wave, const float* x) const {
  Workspace& workspace = ThisThreadsWorkspace();
  workspace.gate_up.Resize(Size(wave.n_rows) * 2 * Size(intermediate_));
  workspace.outputs.Resize(Size(wave.n_rows) * Size(hidden_));
  Multiply(wave, &Expert::gate_up, Gather(plan, wave, x, workspace), workspace.gate_up.data());
  Multiply(wave, &Expert::down, Activate(wave, workspace), workspace.outputs.data());
}

void NativeExperts::ForEachGroup(const Wave& wave, int row_size,
                                 const std::function<void(int)>& task) const {
  const auto n_groups = static_cast<int>(wave.groups.size());
  if (static_cast<std::ptrdiff_t>(wave.n_rows) * row_size >= kSerialValues) {
    context_.pool->ParallelFor(n_groups, task);
    return;
  }
  for (int i = 0; i < n_groups; ++i) {
    task(i);
  }
}

NativeExperts::Inputs NativeExperts::Gather(const Plan& plan, const Wave& wave, const float* x,
                                            Workspace& workspace) const {
  workspace.inputs.Resize(Size(wave.n_rows) * Size(hidden_));
  float* const gathered = workspace.inputs.data();
  Inputs inputs(wave.groups.size());
  ForEachGroup(wave, hidden_, [&](int i) {
    const Group& group = wave.groups[Size(i)];
    float* const rows = gathered + PlaceIn(wave, group) * hidden_;
    for (std::ptrdiff_t r = 0; r < group.n_rows; ++r) {
      const std::ptrdiff_t row = plan.row_of[static_cast<std::size_t>(group.first + r)];
      std::copy_n(x + row * hidden_, hidden_, rows + r * hidden_);
    }
    inputs[Size(i)] = experts_[Size(group.expert)].gate_up.Prepare(rows, group.n_rows, serial_);
  });
  return inputs;
}

NativeExperts::Inputs NativeExperts::Activate(const Wave& wave, Workspace& workspace) const {
  workspace.activated.Resize(Size(wave.n_rows) * Size(intermediate_));
  const float* const gate_up = workspace.gate_up.data();
  float* const activated = workspace.activated.data();
  const auto kernel = GluKernelFor(context_.instruction_set, activation_);
  Inputs inputs(wave.groups.size());
  ForEachGroup(wave, 3 * intermediate_, [&](int i) {
    const Group& group = wave.groups[Size(i)];
    float* const rows = activated + PlaceIn(wave, group) * intermediate_;
    kernel({.gate_up = gate_up + PlaceIn(wave, group) * 2 * intermediate_,
            .y = rows,
            .n_rows = group.n_rows,
            .d = intermediate_});
    inputs[Size(i)] = experts_[Size(group.expert)].down.Prepare(rows, group.n_rows, serial_);
  });
  return inputs;
}

void NativeExperts::Multiply(const Wave& wave, ProductOf product, const Inputs& inputs,
                             float* y) const {
  struct Task {
    int group = 0;
    int first_tile = 0;
    int end_tile = 0;
  };
  const int n_tiles = (experts_.front().*product).n_tiles();
  const int n_out = (experts_.front().*product).n_out();
  std::vector<int> order(wave.groups.size());  // most rows first, so that the threads end together
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<int>(i);
  }
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int i) { return wave.groups[Size(i)].n_rows; });
  const int wanted = context_.pool->size() * kTasksPerThread;
  const int all_tiles = n_tiles * static_cast<int>(wave.groups.size());
  const int even = std::max(1, (all_tiles + wanted - 1) / wanted);
  std::vector<Task> tasks;
  for (const int i : order) {
    const int step =
        wave.groups[Size(i)].n_rows > linear::kMaxRows ? std::min(even, kMaxTaskTiles) : even;
    for (int tile = 0; tile < n_tiles; tile += step) {
      tasks.push_back({.group = i, .first_tile = tile, .end_tile = std::min(tile + step, n_tiles)});
    }
  }
  context_.pool->ParallelFor(static_cast<int>(tasks.size()), [&](int i) {
    const Task& task = tasks[Size(i)];
    const Group& group = wave.groups[Size(task.group)];
    (experts_[Size(group.expert)].*product)
        .MultiplyTiles(inputs[Size(task.group)], task.first_tile, task.end_tile,
                       y + PlaceIn(wave, group) * n_out);
  });
}

void NativeExperts::Add(const Plan& plan, const Wave& wave, int n_rows, float* y) const {
  const float* const outputs = ThisThreadsWorkspace().outputs.data();
  const auto n_chosen = static_cast<std::ptrdiff_t>(plan.place_of.size()) / n_rows;
  const int cost = hidden_ * (1 + static_cast<int>(n_chosen));
  SplitRows(*context_.pool, n_rows, cost, [&](RowRange range) {
    for (std::ptrdiff_t row = range.begin; row < range.end; ++row) {
      float* const sum = y + row * hidden_;
      for (std::ptrdiff_t j = row * n_chosen; j < (row + 1) * n_chosen; ++j) {
        const int place = plan.place_of[static_cast<std::size_t>(j)];
        if (place < wave.first || place >= wave.first + wave.n_rows) {
          continue;
        }
        const float weight = plan.weight_of[Size(place)];
        const float* const output =
            outputs + static_cast<std::ptrdiff_t>(place - wave.first) * hidden_;
        for (std::ptrdiff_t i = 0; i < hidden_; ++i) {
          sum[i] += weight * output[i];
        }
      }
    }
  });
}

NativeProduct MakeProduct(const Context& context, std::initializer_list<const WeightSource*> parts,
                          std::vector<float> bias) {
  std::vector<linear::PackedMatrix> packed;
  packed.reserve(parts.size());
  for (const WeightSource* part : parts) {
    packed.emplace_back(*part, *context.pool);
  }
  return {std::move(packed), std::move(bias), linear::KernelsFor(context.instruction_set),
          *context.pool};
}

}  // namespace

std::unique_ptr<Experts> MakeNativeExperts(const Context& context,
                                           std::span<const ExpertSource> sources,
                                           Activation activation) {
  std::vector<Expert> experts;
  experts.reserve(sources.size());
  for (const ExpertSource& source : sources) {
    std::vector<float> gate_up_bias = source.gate_bias;
    gate_up_bias.insert(gate_up_bias.end(), source.up_bias.begin(), source.up_bias.end());
    experts.push_back(
        {.gate_up = MakeProduct(context, {&source.gate, &source.up}, std::move(gate_up_bias)),
         .down = MakeProduct(context, {&source.down}, source.down_bias)});
  }
  return std::make_unique<NativeExperts>(context, std::move(experts), activation);
}

}  // namespace ops::moe
