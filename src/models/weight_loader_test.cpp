#include "models/weight_loader.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cstring>
#include <string>

#include "models/shared_quantization.h"

namespace {

using model_files::TensorFormat;

// A model in memory: tensors of float32 values, or of words that nobody may read.
class FakeModel {
 public:
  FakeModel() { source_.name = "fake"; }

  void Add(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
    std::vector<std::byte> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    AddRaw(name, std::move(shape), std::move(bytes), TensorFormat::kF32, "F32");
  }
  void AddRaw(const std::string& name, std::vector<std::int64_t> shape,
              std::vector<std::byte> bytes, TensorFormat format, const std::string& format_name) {
    data_.push_back(std::move(bytes));
    model_files::TensorView view;
    view.name = name;
    view.stored_name = name;
    view.format = format;
    view.format_name = format_name;
    view.shape = std::move(shape);
    source_.tensors[name] = std::move(view);
    names_.push_back(name);
  }
  // The source, with the spans set; the object must not change afterwards.
  model_files::ModelSource& source() {
    for (std::size_t i = 0; i < data_.size(); ++i) {
      source_.tensors[names_[i]].data = data_[i];
    }
    return source_;
  }

 private:
  model_files::ModelSource source_;
  std::vector<std::vector<std::byte>> data_;
  std::vector<std::string> names_;
};

class WeightLoaderTest : public ::testing::Test {
 protected:
  models::WeightLoader Loader() { return {context_, model_.source(), {}}; }

  // Row r of the matrix, by looking it up as an embedding.
  static std::vector<float> Row(const ops::Linear& linear, int row) {
    mlx::core::array values = linear.Rows(mlx::core::array({row}, mlx::core::int32));
    mlx::core::eval(values);
    return {values.data<float>(), values.data<float>() + values.size()};
  }

  FakeModel model_;
  ops::Context context_{.path = ops::KernelPath::kReference};
};

std::vector<float> Counting(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i));
  }
  return values;
}

TEST_F(WeightLoaderTest, ABiasThatMustBeThereIsNamedWhenItIsNot) {
  model_.Add("q.weight", {1, 4}, {1, 2, 3, 4});
  model_.Add("k.weight", {1, 4}, {1, 2, 3, 4});
  model_.Add("q.bias", {1}, {5});
  models::WeightLoader loader = Loader();
  EXPECT_TRUE(
      loader.Linear({{.name = "q", .n_out = 1, .biased = true}, {.name = "k", .n_out = 1}}, 4));
  const auto refused = loader.Linear({{.name = "k", .n_out = 1, .biased = true}}, 4);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("`k.bias`"), std::string::npos) << refused.error().message;
}

TEST_F(WeightLoaderTest, RowsAndBiasesPermutedForInterleavedRopeAreBroughtBack) {
  // Two heads of four rows: the file has (pair, half), the model wants (half, pair).
  model_.Add("q.weight", {8, 32}, Counting(8 * 32));
  model_.Add("q.bias", {8}, Counting(8));
  model_.source().permuted_heads = {{"q.weight", 2}, {"q.bias", 2}};
  models::WeightLoader loader = Loader();
  const auto linear = loader.Linear({{.name = "q", .n_out = 8}}, 32);
  ASSERT_TRUE(linear) << linear.error().message;
  const int stored_rows[] = {0, 2, 1, 3, 4, 6, 5, 7};
  mlx::core::array biases = (**linear)(mlx::core::zeros({1, 32}));
  mlx::core::eval(biases);
  for (int row = 0; row < 8; ++row) {
    EXPECT_EQ(Row(**linear, row)[0], static_cast<float>(stored_rows[row] * 32)) << row;
    EXPECT_EQ(biases.data<float>()[row], static_cast<float>(stored_rows[row])) << row;
  }
  EXPECT_TRUE(loader.CheckAllTaken());
}

TEST_F(WeightLoaderTest, PartsAreStackedAndAMissingBiasIsZero) {
  model_.Add("a.weight", {2, 32}, Counting(64));
  model_.Add("b.weight", {1, 32}, std::vector<float>(32, 5.0F));
  model_.Add("b.bias", {1}, {7.0F});
  models::WeightLoader loader = Loader();
  const auto linear = loader.Linear({{.name = "a", .n_out = 2}, {.name = "b", .n_out = 1}}, 32);
  ASSERT_TRUE(linear) << linear.error().message;
  EXPECT_EQ(Row(**linear, 1)[31], 63.0F);
  EXPECT_EQ(Row(**linear, 2)[0], 5.0F);
  mlx::core::array y = (**linear)(mlx::core::zeros({1, 32}));
  mlx::core::eval(y);
  EXPECT_EQ(std::vector<float>(y.data<float>(), y.data<float>() + 3),
            (std::vector<float>{0, 0, 7}));
}

TEST_F(WeightLoaderTest, ZeroCentredNormsGetTheirOneUnlessTheFileHasIt) {
  model_.Add("n.weight", {2}, {0.5F, -0.25F});
  for (const bool includes_one : {false, true}) {
    model_.source().norm_weights_include_one = includes_one;
    models::WeightLoader loader = Loader();
    auto norm = loader.Norm("n", 2, {.zero_centred = true});
    ASSERT_TRUE(norm);
    mlx::core::eval(*norm);
    EXPECT_EQ(norm->data<float>()[0], includes_one ? 0.5F : 1.5F);
    EXPECT_EQ(norm->data<float>()[1], includes_one ? -0.25F : 0.75F);
  }
}

TEST_F(WeightLoaderTest, WhatIsWrongIsNamedInOneSentence) {
  model_.Add("short.weight", {2, 16}, Counting(32));
  model_.AddRaw("odd.weight", {2, 32}, std::vector<std::byte>(64), TensorFormat::kOther, "IQ2_XXS");
  model_.AddRaw("packed.weight", {2, 4}, std::vector<std::byte>(32), TensorFormat::kU32, "U32");
  models::WeightLoader loader = Loader();
  const auto message = [&](const char* name) {
    const auto linear = loader.Linear({{.name = name, .n_out = 2}}, 32);
    EXPECT_FALSE(linear);
    return linear ? std::string() : linear.error().message;
  };
  EXPECT_EQ(message("short"),
            "Tensor `short.weight` has the shape [2, 16], but the configuration asks for [2, 32].");
  EXPECT_NE(message("odd").find("`odd.weight` is stored as IQ2_XXS, which is not supported yet"),
            std::string::npos);
  EXPECT_NE(message("none").find("lacks the tensor `none.weight`"), std::string::npos);
  EXPECT_NE(message("packed").find("`packed` is quantised, but config.json has no"),
            std::string::npos);
}

TEST_F(WeightLoaderTest, SurplusTensorsAreNamedAndIgnorableOnesAreNot) {
  model_.Add("extra.weight", {1}, {1.0F});
  model_.Add("vision.weight", {1}, {1.0F});
  model_.Add("model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {1.0F});
  const models::WeightLoader loader = Loader();
  const Result<void> all =
      loader.CheckAllTaken([](std::string_view name) { return name == "vision.weight"; });
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().message.find("holds 1 tensor that"), std::string::npos)
      << all.error().message;
  EXPECT_NE(all.error().message.find("`extra.weight`"), std::string::npos);
}

TEST(Quantization, AnOwnRecordComesBeforeTheGlobalOne) {
  const Json config = ParseJson(R"({"quantization": {"bits": 4, "group_size": 64,
      "model.layers.0.mlp.up_proj": {"bits": 6, "group_size": 32}, "layers.1.mlp.up_proj": {"bits": 8},
      "lm_head": false, "other": {"mode": "nvfp4", "bits": 4, "group_size": 16},
      "fp4": {"mode": "mxfp4", "bits": 4, "group_size": 32}, "bad": {"bits": 7}}})")
                          .value();
  const auto find = [&](const char* name) { return models::FindQuantization(config, name); };
  EXPECT_EQ(find("model.layers.0.mlp.up_proj")->bits, 6);
  EXPECT_EQ(find("model.layers.0.mlp.up_proj")->group_size, 32);
  EXPECT_EQ(find("layers.0.mlp.up_proj")->bits, 6);
  EXPECT_EQ(find("language_model.model.layers.0.mlp.up_proj")->bits, 6);
  EXPECT_EQ(find("model.layers.1.mlp.up_proj")->bits, 8);
  EXPECT_EQ(find("model.embed_tokens")->bits, 4);
  EXPECT_EQ(find("model.embed_tokens")->group_size, 64);
  EXPECT_NE(find("lm_head").error().message.find("`false`"), std::string::npos);
  EXPECT_NE(find("other").error().message.find("`nvfp4`"), std::string::npos);
  EXPECT_TRUE(find("fp4")->mxfp4);
  EXPECT_EQ(find("fp4")->group_size, 32);
  EXPECT_NE(find("bad").error().message.find("bits = 7"), std::string::npos);
}

TEST(Quantization, OtherMethodsAreRefusedByName) {
  const auto method = [](const char* config) {
    const auto read = models::CheckQuantizationMethod(ParseJson(config).value());
    return read ? std::string() : read.error().message;
  };
  const Json mlx = ParseJson(R"({"quantization_config": {"bits": 4, "group_size": 64}})").value();
  EXPECT_NE(method(R"({"quantization_config": {"quant_method": "gptq"}})").find("`gptq`"),
            std::string::npos);
  EXPECT_EQ(method(R"({"quantization_config": {"quant_method": "mxfp4"}})"), "");
  EXPECT_EQ(method(R"({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3",
                       "weight_block_size": [128, 128]}})"),
            "");
  EXPECT_EQ(method(R"({"quantization_config": {"quant_method": "fp8",
                       "weight_block_size": [64, 64]}})"),
            "Weights quantised with `fp8` must be E4M3 with scales for blocks of 128 x 128.");
  EXPECT_TRUE(models::CheckQuantizationMethod(mlx));
  EXPECT_TRUE(models::CheckQuantizationMethod(Json::object()));
}

}  // namespace
