#pragma once

#include <cstddef>

#include "ops/linear/kernels.h"

namespace ops::linear {

// Where the sums of one tile grow: in y itself, or aside where the tile is cut off by the end of
// the part.
class TileSums {
 public:
  TileSums() = default;
  // y: row first_row, first channel of the tile; `aside`: n_rows * 16 floats, used when channels
  // < 16.
  TileSums(float* y, std::ptrdiff_t stride, int n_rows, int channels, float* aside)
      : y_(y),
        y_stride_(stride),
        sums_(channels < kTile ? aside : y),
        stride_(channels < kTile ? kTile : stride),
        n_rows_(n_rows),
        channels_(channels) {}

  // Of the rows from `row` (counted from the first) on.
  [[nodiscard]] float* At(int row) const { return sums_ + row * stride_; }
  [[nodiscard]] std::ptrdiff_t stride() const { return stride_; }

  // The end: adds the bias (null: none) and moves the sums to y.
  void Finish(const float* bias) const {
    if (bias == nullptr && channels_ == kTile) {
      return;
    }
    for (int r = 0; r < n_rows_; ++r) {
      for (int c = 0; c < channels_; ++c) {
        y_[r * y_stride_ + c] = bias != nullptr ? At(r)[c] + bias[c] : At(r)[c];
      }
    }
  }

 private:
  float* y_ = nullptr;
  std::ptrdiff_t y_stride_ = 0;
  float* sums_ = nullptr;
  std::ptrdiff_t stride_ = 0;
  int n_rows_ = 0;
  int channels_ = 0;
};

}  // namespace ops::linear
