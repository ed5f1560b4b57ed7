// Random operations on RadixCache, judged by a slow model that knows of every live block which
// tokens it was computed for and looks prefixes up by comparing them token by token. With a disk
// tier, blocks come back from files, which are damaged now and then, and the whole cache is killed
// and made anew.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/fake_block_store.h"
#include "cache/fake_redis.h"
#include "cache/prefix_cache.h"

namespace cache {
namespace {

using Tokens = std::vector<TokenId>;

struct Running {
  Lease lease;
  std::string salt;
  Tokens tokens;
  std::size_t computed = 0;
};

class Game {
 public:
  // `files`: of a disk tier, or null. `server`: of a shared tier, or null.
  Game(const std::vector<int>& windows, std::uint64_t budget_bytes, std::uint32_t seed,
       MemoryFileSystem* files, FakeRedis* server = nullptr)
      : store_(windows, budget_bytes), files_(files), server_(server), random_(seed) {
    for (const ops::LayerGroup& group : store_.groups()) {
      windows_.push_back(group.window);
    }
    MakeCache();
  }

  ~Game() {
    while (!running_.empty()) {
      End();
    }
    CountDamage();
    cache_->Clear();
    EXPECT_EQ(store_.used_bytes(), 0U);
  }
  Game(const Game&) = delete;
  Game& operator=(const Game&) = delete;

  void Step() {
    switch (Pick(8)) {
      case 0:
      case 1:
        if (running_.size() < 4) {
          Begin();
        }
        break;
      case 2:
      case 3:
      case 4:
      case 5:
        Compute();
        break;
      case 6:
        End();
        break;
      default:
        if (Pick(20) == 0) {
          cache_->Clear();
        } else if (files_ != nullptr && Pick(4) == 0) {
          Restart();
        }
        break;
    }
    if (files_ != nullptr) {
      cache_->Poll();
      Damage();
    }
    CheckAll();
  }

  int reserve_failures = 0;
  std::int64_t found_tokens = 0;
  std::int64_t read_tokens = 0;
  std::int64_t remote_tokens = 0;
  std::uint64_t damaged_files = 0;
  std::uint64_t damaged_values = 0;

 private:
  void MakeCache() {
    if (files_ == nullptr) {
      cache_ = MakeRadixCache(store_);
      return;
    }
    LowerTierOptions lower;
    lower.disk = {.directory = "/cache",
                  .budget_bytes = 1 << 20,
                  .fingerprint = std::string(64, 'c'),
                  .group_bytes = {},
                  .model_name = ""};
    if (server_ != nullptr) {
      lower.remote.emplace();
      lower.remote->address = {.host = "127.0.0.1", .port = server_->port};
      lower.remote->fingerprint = std::string(64, 'c');
    }
    cache_ = MakeRadixCache(store_, std::move(lower), *files_, clock_, [] {});
  }

  void CountDamage() {
    const CacheStats stats = cache_->stats();
    damaged_files += stats.disk ? stats.disk->damaged_files : 0;
    damaged_values += stats.remote ? stats.remote->damaged_blocks : 0;
  }

  // Now and then the disk dies at some step; what had been computed is gone but for the files.
  void Restart() {
    while (!running_.empty()) {
      End();
    }
    if (Pick(2) == 0) {
      files_->KillAfter(static_cast<int>(Pick(10)));
    }
    CountDamage();
    cache_.reset();
    if (server_ != nullptr && Pick(3) == 0) {  // another machine: only the server knows anything
      for (const auto& path : files_->Files()) {
        (void)files_->Remove(path);
      }
    }
    Pick(2) == 0 ? files_->Restart() : files_->LosePower(static_cast<std::uint32_t>(Pick(1000)));
    MakeCache();
  }

  void Damage() {
    if (server_ != nullptr && Pick(20) == 0) {
      using Fault = FakeRedis::Fault;
      constexpr Fault kFaults[] = {Fault::kNone, Fault::kNone,       Fault::kFlipped,
                                   Fault::kCut,  Fault::kOtherValue, Fault::kForgets};
      server_->fault = kFaults[Pick(std::size(kFaults))];
    }
    if (Pick(30) != 0) {
      return;
    }
    const auto all = files_->Files();
    if (all.empty()) {
      return;
    }
    const auto& path = all[Pick(all.size())];
    if (path.extension() == ".safetensors") {
      files_->FlipBit(path, Pick(files_->Content(path).size() * 8));
    }
  }

  // Brings what the disk has, as the scheduler does before Begin.
  void Restore(const Tokens& tokens, const std::string& salt) {
    const std::optional<PrefixCache::RestoreId> id = cache_->StartRestore(tokens, salt);
    if (!id) {
      return;
    }
    if (Pick(10) == 0) {
      cache_->AbandonRestores();
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (cache_->StateOf(*id) == PrefixCache::RestoreState::kRunning && Pick(200) != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "a restore never ends";
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      cache_->Poll();
      cache_->CheckIntegrity();
    }
    const RestoredTokens read = cache_->EndRestore(*id);
    read_tokens += read.disk;
    remote_tokens += read.remote;
  }

  std::size_t Pick(std::size_t n) { return random_() % n; }

  // A few branching prompts: each block is one of two, so that prefixes meet often.
  Tokens MakePrompt() {
    Tokens tokens;
    const std::size_t n = 1 + Pick(9 * 64);
    TokenId variant = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (i % 64 == 0) {
        variant = Pick(4) == 0 ? 1 : 0;
      }
      tokens.push_back(variant * 1000 + static_cast<TokenId>(i % 64));
    }
    return tokens;
  }

  // The slow twin of Begin.
  std::int64_t Expected(const Tokens& tokens, const std::string& salt) const {
    const auto there = [&](std::size_t group, std::int64_t block) {
      const FakeBlockStore::Content content{
          salt, Tokens(tokens.begin(), tokens.begin() + (block + 1) * 64)};
      return std::any_of(store_.blocks.begin(), store_.blocks.end(), [&](const auto& entry) {
        return entry.first.first == static_cast<int>(group) && entry.second == content;
      });
    };
    const auto usable = [&](std::int64_t len) {
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        for (std::int64_t i = 0; i < len / 64; ++i) {
          const bool seen = windows_[g] == 0 || (i + 1) * 64 > len - (windows_[g] - 1);
          if (seen && !there(g, i)) {
            return false;
          }
        }
      }
      return true;
    };
    std::int64_t len = (static_cast<std::int64_t>(tokens.size()) - 1) / 64 * 64;
    while (!usable(len)) {
      len -= 64;
    }
    return len;
  }

  void Begin() {
    const Tokens tokens = MakePrompt();
    const std::string salt = Pick(5) == 0 ? "other" : "";
    if (files_ != nullptr) {
      Restore(tokens, salt);
    }
    const std::int64_t expected = Expected(tokens, salt);
    EXPECT_EQ(cache_->MatchLength(tokens, salt), expected);
    std::vector<std::int64_t> boundaries(Pick(3));
    for (std::int64_t& boundary : boundaries) {
      boundary = static_cast<std::int64_t>(Pick(tokens.size() + 100)) - 50;
    }
    Lease lease = cache_->Begin(tokens, salt, boundaries);
    EXPECT_EQ(lease.cached_len(), expected);
    found_tokens += expected;
    const auto computed = static_cast<std::size_t>(lease.cached_len());
    running_.push_back({std::move(lease), salt, tokens, computed});
  }

  // Computes a chunk of some sequence, which may go on with a reply after its prompt.
  void Compute() {
    if (running_.empty()) {
      return;
    }
    Running& sequence = running_[Pick(running_.size())];
    const std::size_t end = sequence.computed + 1 + Pick(Pick(2) == 0 ? 3 : 200);
    while (sequence.tokens.size() < end) {
      sequence.tokens.push_back(static_cast<TokenId>(Pick(2)));
    }
    if (!cache_->Reserve(sequence.lease, static_cast<std::int64_t>(end))) {
      ++reserve_failures;
      return;
    }
    // Writes: what the engine would do. Only full blocks have a content that anyone else may see.
    for (std::size_t block = sequence.computed / 64; (block + 1) * 64 <= end; ++block) {
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        const ops::BlockId id = sequence.lease.block_tables()[g][block];
        if (id != ops::kNoBlock || !IsRecurrent(g)) {
          store_.blocks.at({static_cast<int>(g), id}) = {sequence.salt,
                                                         ContentEnd(sequence, block)};
        }
      }
    }
    sequence.computed = end;
    cache_->Commit(sequence.lease, std::span(sequence.tokens).first(end));
  }

  bool IsRecurrent(std::size_t group) const { return store_.groups()[group].is_recurrent(); }

  static Tokens ContentEnd(const Running& sequence, std::size_t block) {
    return {sequence.tokens.begin(),
            sequence.tokens.begin() + static_cast<std::ptrdiff_t>((block + 1) * 64)};
  }

  void End() {
    if (running_.empty()) {
      return;
    }
    const std::size_t i = Pick(running_.size());
    Lease lease = std::move(running_[i].lease);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    cache_->Release(std::move(lease));
  }

  void CheckAll() const {
    cache_->CheckIntegrity();
    ASSERT_LE(store_.used_bytes(), store_.budget_bytes());
    std::map<std::pair<std::size_t, ops::BlockId>, bool> locked;
    for (const Running& sequence : running_) {
      CheckTables(sequence);
      for (std::size_t g = 0; g < windows_.size(); ++g) {
        for (const ops::BlockId block : sequence.lease.block_tables()[g]) {
          if (block != ops::kNoBlock) {
            locked[{g, block}] = true;
          }
        }
      }
    }
    std::uint64_t locked_bytes = 0;
    for (const auto& [place, unused] : locked) {
      locked_bytes += store_.BlockBytes(static_cast<int>(place.first));
    }
    EXPECT_EQ(cache_->AvailableBytes(), store_.budget_bytes() - locked_bytes);
  }

  // Every block that the next token sees is there and has the right content; every other has been
  // let go.
  void CheckTables(const Running& sequence) const {
    const auto next = static_cast<std::int64_t>(sequence.computed);
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const auto& table = sequence.lease.block_tables()[g];
      for (std::size_t i = 0; i < table.size(); ++i) {
        const auto end = static_cast<std::int64_t>((i + 1) * 64);
        bool seen = windows_[g] == 0 || end > next - (windows_[g] - 1);
        if (IsRecurrent(g)) {
          // The state before the next token, perhaps the one at the end of the block before it.
          const bool is_last = end - 64 < next && next <= end;
          ASSERT_TRUE(table[i] != ops::kNoBlock || !is_last) << "group " << g << " block " << i;
          ASSERT_TRUE(table[i] == ops::kNoBlock || seen) << "group " << g << " block " << i;
          seen = table[i] != ops::kNoBlock;
        } else {
          ASSERT_EQ(table[i] != ops::kNoBlock, seen) << "group " << g << " block " << i;
        }
        if (!seen) {
          continue;
        }
        const auto found = store_.blocks.find({static_cast<int>(g), table[i]});
        ASSERT_NE(found, store_.blocks.end()) << "a locked block was freed";
        if (end <= next) {
          ASSERT_EQ(found->second,
                    (FakeBlockStore::Content{sequence.salt, ContentEnd(sequence, i)}));
        }
      }
    }
  }

  std::vector<int> windows_;
  FakeBlockStore store_;
  MemoryFileSystem* files_;
  FakeRedis* server_;
  SystemClock clock_;
  std::unique_ptr<PrefixCache> cache_;
  std::mt19937 random_;
  std::vector<Running> running_;
};

class RadixCacheModel : public testing::TestWithParam<std::vector<int>> {};

TEST_P(RadixCacheModel, EveryLookupFindsWhatTheSlowModelFinds) {
  int reserve_failures = 0;
  std::int64_t found_tokens = 0;
  const bool ok = rc::check("random operations", [&](std::uint32_t seed) {
    // From too small for one prompt to room for several.
    const std::uint64_t budget = 110 * GetParam().size() * (4 + seed % 40);
    Game game(GetParam(), budget, seed, nullptr);
    for (int i = 0; i < 120 && !testing::Test::HasFailure(); ++i) {
      game.Step();
    }
    reserve_failures += game.reserve_failures;
    found_tokens += game.found_tokens;
    RC_ASSERT(!testing::Test::HasFailure());
  });
  EXPECT_TRUE(ok);
  EXPECT_GT(reserve_failures, 0) << "the budgets were never short";
  EXPECT_GT(found_tokens, 0) << "no prefix was ever found";
}

TEST_P(RadixCacheModel, WithADiskTierEveryBlockHasItsContent) {
  std::int64_t read_tokens = 0;
  std::uint64_t damaged_files = 0;
  const bool ok = rc::check("random operations", [&](std::uint32_t seed) {
    const std::uint64_t budget = 110 * GetParam().size() * (4 + seed % 40);
    MemoryFileSystem files;
    {
      Game game(GetParam(), budget, seed, &files);
      for (int i = 0; i < 120 && !testing::Test::HasFailure(); ++i) {
        game.Step();
      }
      read_tokens += game.read_tokens;
      damaged_files += game.damaged_files;
    }
    RC_ASSERT(!testing::Test::HasFailure());
  });
  EXPECT_TRUE(ok);
  EXPECT_GT(read_tokens, 0) << "nothing ever came from the disk";
  EXPECT_GT(damaged_files, 0U) << "no damage was ever found";
}

TEST_P(RadixCacheModel, WithASharedTierThatLiesEveryBlockHasItsContent) {
  std::int64_t remote_tokens = 0;
  std::uint64_t damaged_values = 0;
  const bool ok = rc::check("random operations", [&](std::uint32_t seed) {
    const std::uint64_t budget = 110 * GetParam().size() * (4 + seed % 40);
    MemoryFileSystem files;
    FakeRedis server;
    {
      Game game(GetParam(), budget, seed, &files, &server);
      for (int i = 0; i < 120 && !testing::Test::HasFailure(); ++i) {
        game.Step();
      }
      remote_tokens += game.remote_tokens;
      damaged_values += game.damaged_values;
    }
    RC_ASSERT(!testing::Test::HasFailure());
  });
  EXPECT_TRUE(ok);
  EXPECT_GT(remote_tokens, 0) << "nothing ever came from the server";
  EXPECT_GT(damaged_values, 0U) << "no damage was ever found";
}

INSTANTIATE_TEST_SUITE_P(Groups, RadixCacheModel,
                         testing::Values(std::vector<int>{0}, std::vector<int>{0, 512},
                                         std::vector<int>{0, 32}, std::vector<int>{0, 65, 129},
                                         std::vector<int>{100}, std::vector<int>{1, 32},
                                         std::vector<int>{0, kRecurrent},
                                         std::vector<int>{0, 100, kRecurrent},
                                         std::vector<int>{kRecurrent}));

}  // namespace
}  // namespace cache
