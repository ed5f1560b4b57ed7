#include "ops/kv_store/kv_store.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <map>
#include <set>

namespace ops {
namespace {

// Two groups: 2 and 1 layers; a layer's part is 2 heads x 2 x 64 x 32 halves = 16 KB.
constexpr std::uint64_t kLayerBytes = 2 * 2 * 64 * 32 * 2;

KvStoreSpec Spec(std::uint64_t budget_bytes) {
  return {.groups = {{.layers = {0, 2}, .window = 0}, {.layers = {1}, .window = 128}},
          .n_kv_heads = 2,
          .head_dim = 32,
          .dtype = KvDtype::kF16,
          .budget_bytes = budget_bytes};
}

std::unique_ptr<KvStore> Make(KernelPath path, std::uint64_t budget_bytes) {
  return MakeKvStore({.path = path}, Spec(budget_bytes));
}

class BothKvStores : public ::testing::TestWithParam<KernelPath> {};
INSTANTIATE_TEST_SUITE_P(Paths, BothKvStores,
                         ::testing::Values(KernelPath::kNative, KernelPath::kReference));

TEST_P(BothKvStores, FindTheGroupOfALayer) {
  const auto store = Make(GetParam(), 1 << 20);
  EXPECT_EQ(store->PlaceOf(0).group, 0);
  EXPECT_EQ(store->PlaceOf(2).index, 1);
  EXPECT_EQ(store->PlaceOf(1).group, 1);
  EXPECT_EQ(store->PlaceOf(1).index, 0);
  EXPECT_EQ(store->BlockBytes(0), 2 * kLayerBytes);
  EXPECT_EQ(store->BlockBytes(1), kLayerBytes);
}

TEST_P(BothKvStores, ShareOneBudgetAmongGroupsToTheByte) {
  const auto store = Make(GetParam(), 5 * kLayerBytes);
  const auto a = store->Allocate(0);
  const auto b = store->Allocate(0);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(store->used_bytes(), 4 * kLayerBytes);
  EXPECT_FALSE(store->Allocate(0));  // one layer's bytes are left, a block of two does not fit
  ASSERT_TRUE(store->Allocate(1));
  EXPECT_EQ(store->used_bytes(), store->budget_bytes());
  EXPECT_FALSE(store->Allocate(1));
  store->Free(0, *a);
  EXPECT_EQ(store->used_bytes(), 3 * kLayerBytes);
  EXPECT_TRUE(store->Allocate(1));
  EXPECT_TRUE(store->Allocate(1));
  EXPECT_FALSE(store->Allocate(1));
}

TEST_P(BothKvStores, WithoutBudgetHoldNothing) {
  const auto store = Make(GetParam(), 0);
  EXPECT_FALSE(store->Allocate(0));
  EXPECT_EQ(store->used_bytes(), 0U);
}

TEST_P(BothKvStores, NeverHandOutABlockTwice) {
  rc::check([&] {
    const auto store = Make(GetParam(), 40 * kLayerBytes);
    std::map<int, std::set<BlockId>> held;
    const auto steps = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
    for (const int step : steps) {
      const int group = step % 2;
      if (step % 3 != 0 || held[group].empty()) {
        if (const auto block = store->Allocate(group)) {
          RC_ASSERT(held[group].insert(*block).second);
        }
      } else {
        const auto victim =
            std::next(held[group].begin(), step % static_cast<int>(held[group].size()));
        store->Free(group, *victim);
        held[group].erase(victim);
      }
      RC_ASSERT(store->used_bytes() ==
                held[0].size() * 2 * kLayerBytes + held[1].size() * kLayerBytes);
    }
  });
}

TEST(NativeKvStore, KeepsTheContentOfEachBlockWhileOthersComeAndGo) {
  const std::uint64_t budget = 600 * kLayerBytes;  // more than stays hot
  const auto store = Make(KernelPath::kNative, budget);
  std::map<BlockId, int> content;
  for (int round = 0; round < 3; ++round) {
    while (const auto block = store->Allocate(0)) {
      const int byte = (*block * 7 + round) % 251;
      std::memset(store->LayerData(0, *block, 0), byte, store->BlockBytes(0));
      content[*block] = byte;
    }
    std::vector<BlockId> gone;
    for (const auto& [block, byte] : content) {
      const std::byte* data = store->LayerData(0, block, 1);
      ASSERT_EQ(std::to_integer<int>(data[0]), byte);
      ASSERT_EQ(std::to_integer<int>(data[kLayerBytes - 1]), byte);
      if (block % 3 != round) {
        gone.push_back(block);
      }
    }
    for (const BlockId block : gone) {
      store->Free(0, block);
      content.erase(block);
    }
  }
  EXPECT_FALSE(content.empty());
}

TEST(NativeKvStore, LayersOfABlockLieOneAfterTheOther) {
  const auto store = Make(KernelPath::kNative, 1 << 20);
  const BlockId block = store->Allocate(0).value();
  EXPECT_EQ(store->LayerData(0, block, 1) - store->LayerData(0, block, 0),
            static_cast<std::ptrdiff_t>(kLayerBytes));
}

TEST(NativeKvStore, SurvivesABudgetThatNoMachineHas) {
  const auto store = Make(KernelPath::kNative, std::uint64_t{1} << 60U);
  const auto block = store->Allocate(1);
  ASSERT_TRUE(block);
  std::memset(store->LayerData(1, *block, 0), 1, kLayerBytes);
}

TEST_P(BothKvStores, TakeBackTheBytesThatAnotherGave) {
  const auto store = Make(GetParam(), 1 << 20);
  const auto other = Make(GetParam(), 1 << 20);
  for (const int group : {0, 1}) {
    std::vector<std::byte> bytes(store->BlockBytes(group));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(i % 61 + i / 4096);  // no NaN among the halves
    }
    const BlockId block = store->Allocate(group).value();
    store->CopyIn(group, block, bytes);
    std::vector<std::byte> out(bytes.size());
    store->CopyOut(group, block, out);
    EXPECT_EQ(out, bytes);
    const BlockId twin = other->Allocate(group).value();
    other->CopyIn(group, twin, out);
    std::vector<std::byte> again(bytes.size());
    other->CopyOut(group, twin, again);
    EXPECT_EQ(again, bytes);
  }
}

TEST_P(BothKvStores, HoldStatesInTheSameBudget) {
  KvStoreSpec spec = Spec(1 << 20);
  spec.groups.push_back(
      {.layers = {3, 4}, .window = kStateWindow, .state_floats = 1000, .conv_floats = 24});
  const auto store = MakeKvStore({.path = GetParam()}, spec);
  ASSERT_EQ(store->BlockBytes(2), 2 * 1024 * sizeof(float));
  const BlockId block = store->Allocate(2).value();
  EXPECT_EQ(store->used_bytes(), store->BlockBytes(2));
  std::vector<std::byte> bytes(store->BlockBytes(2));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>(i % 61);
  }
  store->CopyIn(2, block, bytes);
  std::vector<std::byte> out(bytes.size());
  store->CopyOut(2, block, out);
  EXPECT_EQ(out, bytes);
}

TEST(ReferenceKvStore, StartsBlocksAtZeroAndKeepsWhatIsPutIn) {
  const auto store = Make(KernelPath::kReference, 1 << 20);
  const BlockId block = store->Allocate(0).value();
  KvStore::BlockArrays& arrays = store->Arrays(0, block, 1);
  EXPECT_EQ(arrays.k.shape(), (mlx::core::Shape{64, 2, 32}));
  EXPECT_EQ(arrays.k.dtype(), mlx::core::float16);
  EXPECT_EQ(mlx::core::max(mlx::core::abs(arrays.v)).item<mlx::core::float16_t>(),
            mlx::core::float16_t(0));
  arrays.k = mlx::core::ones({64, 2, 32}, mlx::core::float16);
  const BlockId other = store->Allocate(0).value();
  store->Free(0, other);
  EXPECT_EQ(mlx::core::min(store->Arrays(0, block, 1).k).item<mlx::core::float16_t>(),
            mlx::core::float16_t(1));
}

}  // namespace
}  // namespace ops
