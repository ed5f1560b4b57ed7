#include "api/call_memory.h"

#include <xxhash.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace api {
namespace {

// Of turns alike in all but their tokens: answers of one prompt, sampled often. More would not be
// told apart by anything but their ids.
constexpr std::size_t kMaxRecalled = 16;
constexpr std::size_t kEntryOverhead = 512;  // of lists, maps and strings, about

// Protocols put something before an id, clients take "_" out of it.
bool IsId(const std::string& sent, const std::string& given) {
  return !given.empty() && sent.ends_with(given);
}

std::size_t BytesOf(const ParsedReply& reply) {
  std::size_t bytes = reply.content.size() + reply.reasoning.size();
  for (const chat::ToolCall& call : reply.calls) {
    bytes += sizeof(chat::ToolCall) + call.id.size() + call.name.size() +
             call.arguments.get_ref<const std::string&>().size();
  }
  return bytes;
}

}  // namespace

std::uint64_t HashOf(const std::vector<TokenId>& tokens) {
  return XXH3_64bits(tokens.data(), tokens.size() * sizeof(TokenId));
}

void CallMemory::Remember(const std::string& owner, WrittenTurn turn) {
  Entry entry{.owner = owner, .calls = CanonicalCalls(turn.reply.calls), .turn = {}};
  entry.bytes = kEntryOverhead + owner.size() + entry.calls.size() +
                turn.tokens.size() * sizeof(TokenId) + BytesOf(turn.reply);
  if (entry.bytes > max_bytes_) {
    return;
  }
  entry.turn = std::make_shared<const WrittenTurn>(std::move(turn));
  const std::lock_guard lock(mutex_);
  bytes_ += entry.bytes;
  entries_.push_front(std::move(entry));
  by_calls_[entries_.front().calls].push_back(entries_.begin());
  while (bytes_ > max_bytes_) {
    ForgetOldest();
  }
}

// The map's key is the string of one of its entries, which may be the one that goes.
void CallMemory::ForgetOldest() {
  const auto oldest = std::prev(entries_.end());
  auto alike = by_calls_.extract(oldest->calls);
  std::vector<Entries::iterator>& list = alike.mapped();
  list.erase(std::ranges::find(list, oldest));
  if (!list.empty()) {
    alike.key() = list.front()->calls;
    by_calls_.insert(std::move(alike));
  }
  bytes_ -= oldest->bytes;
  entries_.erase(oldest);
}

CallMemory::Turns CallMemory::Recall(const std::string& owner,
                                     const std::vector<chat::ToolCall>& calls) const {
  const std::string key = CanonicalCalls(calls);
  Turns turns;
  const std::lock_guard lock(mutex_);
  const auto found = by_calls_.find(key);
  if (found == by_calls_.end()) {
    return turns;
  }
  for (auto entry = found->second.rbegin(); entry != found->second.rend(); ++entry) {
    if ((*entry)->owner == owner) {
      turns.push_back((*entry)->turn);
    }
  }
  std::stable_partition(turns.begin(), turns.end(), [&](const auto& turn) {
    return IsId(calls.front().id, turn->reply.calls.front().id);
  });
  turns.resize(std::min(turns.size(), kMaxRecalled));
  return turns;
}

std::size_t CallMemory::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace api
