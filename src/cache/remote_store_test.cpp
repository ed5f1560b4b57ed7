// The shared tier against a server that misbehaves in every way.
#include "cache/remote_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "cache/fake_redis.h"
#include "cache/kv_value.h"
#include "cache/test_segments.h"

namespace cache {
namespace {

using std::chrono::milliseconds;
using test_segments::Branch;
using test_segments::kFull;
using test_segments::kOwn;
using test_segments::kWindow;
using Fault = FakeRedis::Fault;
using SteadyClock = std::chrono::steady_clock;

constexpr GroupMask kBoth = 3;

RemoteOptions Options(const FakeRedis& server) {
  RemoteOptions options;
  options.address = {.host = "127.0.0.1", .port = server.port};
  options.ttl = std::chrono::seconds(60);
  options.timeout = milliseconds(200);
  options.fingerprint = kOwn;
  options.group_bytes = {kFull, kWindow};
  return options;
}

std::vector<WantedBlock> Wanted(const Branch& branch) {
  std::vector<WantedBlock> wanted;
  for (const BlockContent& block : branch.blocks) {
    WantedBlock& want = wanted.emplace_back();
    want.key = block.key;
    want.tokens = block.tokens;
    want.groups = kBoth;
  }
  return wanted;
}

// Nothing when the server is left alone; fails the test when it takes longer than any time-out.
std::vector<GroupMask> LookUp(RemoteStore& store, const std::vector<WantedBlock>& wanted) {
  const auto id = store.StartLookup(wanted, /*needed=*/1);
  if (!id) {
    return {};
  }
  const auto deadline = SteadyClock::now() + std::chrono::seconds(5);
  std::optional<std::vector<GroupMask>> found;
  while (!(found = store.TakeLookup(*id)) && SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  store.EndLookup(*id);
  EXPECT_TRUE(found) << "the lookup hangs";
  return found.value_or(std::vector<GroupMask>());
}

// The blocks that came, all of which must be what was written.
std::size_t Read(RemoteStore& store, const Branch& branch) {
  const ReadId id = store.StartRead(Wanted(branch));
  const auto deadline = SteadyClock::now() + std::chrono::seconds(10);
  std::size_t n = 0;
  while (true) {
    ReadProgress progress = store.TakeRead(id);
    for (const BlockRead& block : progress.blocks) {
      EXPECT_EQ(block.wanted, n);
      EXPECT_EQ(block.groups, branch.blocks[n].groups) << "other bytes";
      ++n;
    }
    if (progress.ended) {
      EXPECT_EQ(progress.failed, n < branch.blocks.size());
      break;
    }
    if (SteadyClock::now() > deadline) {
      ADD_FAILURE() << "the read hangs";
      break;
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  store.EndRead(id);
  return n;
}

void Fill(const FakeRedis& server, const Branch& branch) {
  RemoteStore store(Options(server), [] {});
  EXPECT_TRUE(store.Write(branch.Part(0, branch.blocks.size())));
  store.WaitUntilIdle();
  EXPECT_EQ(store.stats().written_blocks, branch.blocks.size());
}

TEST(RemoteStore, AnotherStoreReadsWhatOneWrote) {
  FakeRedis server;
  const Branch branch("", 1, 5);
  Fill(server, branch);
  EXPECT_EQ(server.size(), 10U) << "a value a block and group";
  EXPECT_EQ(server.LastTtl(), "60");
  RemoteStore other(Options(server), [] {});
  EXPECT_EQ(LookUp(other, Wanted(branch)), std::vector<GroupMask>(5, kBoth));
  EXPECT_EQ(Read(other, branch), 5U);
  EXPECT_EQ(other.stats().read_bytes, 5 * (kFull + kWindow));
  EXPECT_TRUE(other.stats().available);
}

TEST(RemoteStore, NothingIsWrittenTwice) {
  FakeRedis server;
  const Branch branch("", 1, 3);
  Fill(server, branch);
  RemoteStore other(Options(server), [] {});
  other.Write(branch.Part(0, 3));
  other.WaitUntilIdle();
  EXPECT_EQ(other.stats().written_bytes, 0U);
}

TEST(RemoteStore, WithoutATimeToLiveValuesStay) {
  FakeRedis server;
  const Branch branch("", 1, 1);
  RemoteOptions options = Options(server);
  options.ttl = {};
  RemoteStore store(options, [] {});
  store.Write(branch.Part(0, 1));
  store.WaitUntilIdle();
  EXPECT_EQ(server.LastTtl(), "");
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>{kBoth});
}

TEST(RemoteStore, ALookupEndsWhereANeededBlockIsMissing) {
  FakeRedis server;
  const Branch branch("", 1, 200);
  RemoteStore store(Options(server), [] {});
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>(200, 0));
  EXPECT_EQ(server.commands, 128) << "two groups of the first 64 blocks";
}

TEST(RemoteStore, OtherNamespacesAndTenantsShareNothing) {
  FakeRedis server;
  Fill(server, Branch("tenant", 1, 2));
  RemoteStore store(Options(server), [] {});
  EXPECT_EQ(LookUp(store, Wanted(Branch("", 1, 2))), std::vector<GroupMask>(2, 0));
  RemoteOptions options = Options(server);
  options.fingerprint = std::string(64, 'b');
  RemoteStore unlike(options, [] {});
  EXPECT_EQ(LookUp(unlike, Wanted(Branch("tenant", 1, 2))), std::vector<GroupMask>(2, 0));
}

TEST(RemoteStore, APasswordIsGivenAndAWrongOneIsAMiss) {
  FakeRedis server;
  server.password = "secret";
  const Branch branch("", 1, 1);
  RemoteOptions options = Options(server);
  options.address.password = "secret";
  {
    RemoteStore store(options, [] {});
    store.Write(branch.Part(0, 1));
    store.WaitUntilIdle();
    EXPECT_EQ(Read(store, branch), 1U);
  }
  options.address.password = "wrong";
  RemoteStore store(options, [] {});
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>{0});
  EXPECT_EQ(store.stats().errors, 1U);
  EXPECT_FALSE(store.stats().available);
  EXPECT_FALSE(store.StartLookup(Wanted(branch), 1)) << "left alone for a while";
}

TEST(RemoteStore, ConnectionsThatTheServerClosedAreMadeAnew) {
  FakeRedis server;
  const Branch branch("", 1, 2);
  RemoteStore store(Options(server), [] {});
  store.Write(branch.Part(0, 2));
  store.WaitUntilIdle();
  EXPECT_EQ(Read(store, branch), 2U);
  server.HangUpAll();
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>(2, kBoth));
  EXPECT_EQ(Read(store, branch), 2U);
  EXPECT_EQ(store.stats().errors, 0U);
}

struct Case {
  Fault fault;
  bool is_damage;  // the values are wrong, not the server
};

class RemoteFaults : public testing::TestWithParam<Case> {};

TEST_P(RemoteFaults, GiveNoWrongBytesAndNoStuckRead) {
  FakeRedis server;
  const Branch branch("", 1, 4);
  Fill(server, branch);
  server.fault = GetParam().fault;
  server.slow_ms = 2000;
  RemoteStore store(Options(server), [] {});
  const auto begin = SteadyClock::now();
  EXPECT_LT(Read(store, branch), 4U);
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(3));
  const RemoteStats stats = store.stats();
  EXPECT_EQ(stats.damaged_blocks > 0, GetParam().is_damage);
  EXPECT_GT(stats.damaged_blocks + stats.missing_blocks + stats.timeouts + stats.errors, 0U);
  server.fault = Fault::kNone;
}

INSTANTIATE_TEST_SUITE_P(All, RemoteFaults,
                         testing::Values(Case{Fault::kSilent, false}, Case{Fault::kSlow, false},
                                         Case{Fault::kDrip, false}, Case{Fault::kHangUp, false},
                                         Case{Fault::kFlipped, true}, Case{Fault::kCut, true},
                                         Case{Fault::kOtherValue, true},
                                         Case{Fault::kForgets, false},
                                         Case{Fault::kGarbage, false},
                                         Case{Fault::kEndless, false},
                                         Case{Fault::kLists, false}));

TEST(RemoteStore, EveryFlippedByteOfAValueIsFound) {
  FakeRedis server;
  const Branch branch("", 1, 1);
  Fill(server, branch);
  const KvFileSpec spec{.fingerprint = kOwn, .group_bytes = {kFull, kWindow}};
  const std::string name = KvValueName(spec, branch.blocks[0].key, 1);
  const std::string value = server.values().at(name);
  WantedBlock wanted = Wanted(branch).front();
  const TakeBuffer buffers = [](std::uint64_t n) { return std::vector<std::byte>(n); };
  ASSERT_TRUE(DecodeKvValue(value, spec, wanted, 1, buffers));
  for (std::size_t i = 0; i < value.size(); ++i) {
    std::string flipped = value;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    const auto bytes = DecodeKvValue(flipped, spec, wanted, 1, buffers);
    // The header names the block before, which the reader does not need.
    EXPECT_TRUE(!bytes || *bytes == branch.blocks[0].groups[1]) << "byte " << i;
  }
  for (std::size_t n = 0; n < value.size(); n += 7) {
    EXPECT_FALSE(DecodeKvValue(value.substr(0, n), spec, wanted, 1, buffers)) << n;
  }
  EXPECT_FALSE(DecodeKvValue(value + "x", spec, wanted, 1, buffers));
  wanted.tokens[5] += 1;
  EXPECT_FALSE(DecodeKvValue(value, spec, wanted, 1, buffers)) << "another prompt of the same key";
}

TEST(RemoteStore, ADamagedValueIsRemovedAndWrittenAnew) {
  FakeRedis server;
  const Branch branch("", 1, 1);
  Fill(server, branch);
  for (const auto& [name, value] : server.values()) {
    server.Put(name, value.substr(0, value.size() - 1));
  }
  RemoteStore store(Options(server), [] {});
  EXPECT_EQ(Read(store, branch), 0U);
  EXPECT_EQ(server.size(), 1U) << "the group that was read is gone";
  store.Write(branch.Part(0, 1));
  store.WaitUntilIdle();
  EXPECT_EQ(Read(store, branch), 0U) << "the other group's turn";
  store.Write(branch.Part(0, 1));
  store.WaitUntilIdle();
  EXPECT_EQ(Read(store, branch), 1U);
}

TEST(RemoteStore, ADamagedValueThatCannotBeRemovedIsNotFoundAgain) {
  FakeRedis server;
  const Branch branch("", 1, 1);
  RemoteOptions options = Options(server);
  options.ttl = {};
  Fill(server, branch);
  for (const auto& [name, value] : server.values()) {
    server.Put(name, value.substr(0, value.size() - 1));
  }
  server.fault = Fault::kReadOnly;
  RemoteStore store(options, [] {});
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>{kBoth});
  EXPECT_EQ(Read(store, branch), 0U);
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>{2});
}

TEST(RemoteStore, AFullServerPausesWritesAndStillAnswers) {
  FakeRedis server;
  const Branch there("", 1, 2);
  Fill(server, there);
  server.fault = Fault::kFull;
  const Branch branch("", 2, 2);
  RemoteStore store(Options(server), [] {});
  EXPECT_TRUE(store.Write(branch.Part(0, 2)));
  store.WaitUntilIdle();
  EXPECT_FALSE(store.HasRoom(1)) << "blocks wait in memory until it may have room";
  EXPECT_GE(store.stats().errors, 1U);
  EXPECT_EQ(Read(store, there), 2U);
}

TEST(RemoteStore, ADeadServerIsLeftAloneAndFoundAgain) {
  auto server = std::make_unique<FakeRedis>();
  const RemoteOptions options = Options(*server);
  server.reset();
  const Branch branch("", 1, 2);
  RemoteStore store(options, [] {});
  EXPECT_EQ(LookUp(store, Wanted(branch)), std::vector<GroupMask>(2, 0));
  EXPECT_FALSE(store.StartLookup(Wanted(branch), 1));
  EXPECT_FALSE(store.HasRoom(1));
  EXPECT_EQ(store.stats().errors, 1U);
}

TEST(RemoteStore, BlocksOfAServerThatWasAwayAreWrittenWhenItIsBack) {
  FakeRedis server;
  const Branch branch("", 1, 2);
  server.fault = Fault::kSilent;
  RemoteStore store(Options(server), [] {});
  EXPECT_TRUE(store.Write(branch.Part(0, 2)));
  store.WaitUntilIdle();
  EXPECT_EQ(store.stats().timeouts, 1U);
  server.fault = Fault::kNone;
  const auto deadline = SteadyClock::now() + std::chrono::seconds(5);
  while (store.stats().written_blocks < 2 && SteadyClock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(server.size(), 4U);
}

TEST(RemoteStore, GoesSoonWhateverTheServerDoes) {
  FakeRedis server;
  const Branch branch("", 1, 4);
  Fill(server, branch);
  server.fault = Fault::kSilent;
  RemoteOptions options = Options(server);
  options.timeout = std::chrono::seconds(60);
  const auto begin = SteadyClock::now();
  {
    RemoteStore store(options, [] {});
    store.Write(Branch("", 2, 2).Part(0, 2));
    (void)store.StartLookup(Wanted(branch), 1);
    (void)store.StartRead(Wanted(branch));
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(4));
}

}  // namespace
}  // namespace cache
