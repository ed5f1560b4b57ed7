#include "engine/fingerprint.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace {

model_files::ModelSource MakeSource(const std::vector<std::byte>& data) {
  model_files::ModelSource source;
  source.config = Json{{"hidden_size", 8}};
  model_files::TensorView view;
  view.name = "w";
  view.format_name = "F32";
  view.shape = {static_cast<std::int64_t>(data.size())};
  view.data = data;
  source.tensors["w"] = view;
  return source;
}

TEST(Fingerprint, EqualModelsAgreeAndTheNameDoesNotMatter) {
  const std::vector<std::byte> data(100, std::byte{1});
  model_files::ModelSource a = MakeSource(data);
  model_files::ModelSource b = MakeSource(data);
  a.name = "one";
  b.name = "two";
  b.path = "/elsewhere";
  EXPECT_EQ(engine::Fingerprint(a, {}), engine::Fingerprint(b, {}));
  EXPECT_EQ(engine::Fingerprint(a, {}).size(), 64U);
}

TEST(Fingerprint, EverythingThatChangesStateChangesIt) {
  std::vector<std::byte> data(100, std::byte{1});
  std::set<std::string> seen;
  const auto expect_new = [&](const model_files::ModelSource& source,
                              const engine::NumericPath& numeric) {
    EXPECT_TRUE(seen.insert(engine::Fingerprint(source, numeric)).second) << seen.size();
  };
  model_files::ModelSource source = MakeSource(data);
  expect_new(source, {});
  expect_new(source, {.path = ops::KernelPath::kReference});
  expect_new(source, {.instruction_set = ops::InstructionSet::kAvx2});
  expect_new(source, {.kv_dtype = ops::KvDtype::kF32});
  source.config["rope_theta"] = 2;
  expect_new(source, {});
  source.tokenizer.tokenizer_json = "{}";
  expect_new(source, {});
  source.norm_weights_include_one = true;
  expect_new(source, {});
  source.permuted_heads["w"] = 2;
  expect_new(source, {});
  source.tensors["w"].format_name = "F16";
  expect_new(source, {});
  source.tensors["w"].shape = {10, 10};
  expect_new(source, {});
  data[99] = std::byte{2};
  expect_new(source, {});
}

TEST(Fingerprint, LargeTensorsAreSampledFromFirstToLastByte) {
  std::vector<std::byte> data(std::size_t{1} << 20U);
  const std::string original = engine::Fingerprint(MakeSource(data), {});
  for (const std::size_t at : {std::size_t{0}, data.size() - 1}) {
    data[at] = std::byte{1};
    EXPECT_NE(engine::Fingerprint(MakeSource(data), {}), original) << at;
    data[at] = std::byte{0};
  }
}

}  // namespace
