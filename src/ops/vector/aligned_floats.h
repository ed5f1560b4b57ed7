#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace ops {

// Uninitialised floats that begin at a cache line, so that no vector load touches two.
class AlignedFloats {
 public:
  // Room for n floats; what was there is lost.
  void Resize(std::size_t n) {
    if (n <= capacity_) {
      return;
    }
    constexpr std::size_t kLine = 64;
    const std::size_t bytes = (n * sizeof(float) + kLine - 1) / kLine * kLine;
    data_.reset(static_cast<float*>(std::aligned_alloc(kLine, bytes)));
    capacity_ = data_ ? n : 0;
    if (!data_) {
      throw std::bad_alloc();
    }
  }
  [[nodiscard]] float* data() const { return data_.get(); }

 private:
  struct Release {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Release> data_;
  std::size_t capacity_ = 0;
};

}  // namespace ops
