#pragma once

#include <cstddef>
#include <cstdint>

namespace ops {

// A range of addresses that takes memory page by page on first use.
class ReservedMemory {
 public:
  // Reserves `bytes`, or half of that and so on when the system refuses; size() may be 0.
  explicit ReservedMemory(std::uint64_t bytes);
  ~ReservedMemory();
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;
  ReservedMemory& operator=(ReservedMemory&&) = delete;

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }

  // Gives the whole pages of [offset, offset + bytes) back to the system; what they held is lost.
  void Release(std::uint64_t offset, std::uint64_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace ops
