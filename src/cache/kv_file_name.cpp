#include "cache/kv_file_name.h"

#include <fmt/format.h>

#include <charconv>

namespace cache {
namespace {

constexpr std::string_view kAlphabet = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::string_view kExtension = ".safetensors";
constexpr std::size_t kTagChars = 8;
constexpr std::size_t kBlockChars = kTagChars + 1;
constexpr unsigned kBitsPerChar = 5;
constexpr std::uint64_t kCharMask = 31;

void AppendTag(std::string& text, BlockTag tag) {
  for (std::size_t i = 0; i < kTagChars; ++i) {
    const auto shift = static_cast<unsigned>(kTagChars - 1 - i) * kBitsPerChar;
    text += kAlphabet[(tag.bits >> shift) & kCharMask];
  }
}

// Reads base 32 of any length up to 12 characters.
std::optional<std::uint64_t> ReadBits(std::string_view text) {
  std::uint64_t bits = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos) {
      return std::nullopt;
    }
    bits = bits << kBitsPerChar | value;
  }
  return bits;
}

}  // namespace

BlockTag TagOf(const BlockKey& key) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    bits = bits << 8U | key[i];
  }
  return {.bits = bits};
}

std::string FormatKvFileName(const KvFileName& name) {
  std::string text = fmt::format("{:04x}-", name.first_block);
  AppendTag(text, name.parent);
  text += '-';
  for (const KvFileName::Block& block : name.blocks) {
    AppendTag(text, block.tag);
    text += kAlphabet[block.groups & kCharMask];
  }
  text += kExtension;
  return text;
}

std::optional<KvFileName> ParseKvFileName(std::string_view text) {
  const std::string_view whole = text;
  if (!text.ends_with(kExtension)) {
    return std::nullopt;
  }
  text.remove_suffix(kExtension.size());
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos || text.size() < dash + 1 + kTagChars + 1 + kBlockChars ||
      text[dash + 1 + kTagChars] != '-') {
    return std::nullopt;
  }
  KvFileName name;
  const auto [end, error] = std::from_chars(text.data(), text.data() + dash, name.first_block, 16);
  const std::optional<std::uint64_t> parent = ReadBits(text.substr(dash + 1, kTagChars));
  if (error != std::errc() || end != text.data() + dash || name.first_block < 0 || !parent) {
    return std::nullopt;
  }
  name.parent.bits = *parent;
  text.remove_prefix(dash + 1 + kTagChars + 1);
  if (text.size() % kBlockChars != 0 || text.size() / kBlockChars > kMaxSegmentBlocks) {
    return std::nullopt;
  }
  for (; !text.empty(); text.remove_prefix(kBlockChars)) {
    const std::optional<std::uint64_t> tag = ReadBits(text.substr(0, kTagChars));
    const std::optional<std::uint64_t> groups = ReadBits(text.substr(kTagChars, 1));
    if (!tag || !groups || *groups == 0) {
      return std::nullopt;
    }
    name.blocks.push_back({.tag = {.bits = *tag}, .groups = static_cast<GroupMask>(*groups)});
  }
  return FormatKvFileName(name) == whole ? std::optional(name) : std::nullopt;
}

}  // namespace cache
