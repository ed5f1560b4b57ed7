#pragma once

#include <cstdint>

namespace cache {

// The disk tier in numbers.
struct SsdStats {
  bool usable = false;  // the folder can be used
  bool ready = false;   // its files are known
  std::uint64_t used_bytes = 0;
  std::uint64_t budget_bytes = 0;
  std::uint64_t files = 0;
  std::uint64_t own_bytes = 0;  // of this namespace
  std::uint64_t own_blocks = 0;
  std::uint64_t queued_bytes = 0;  // to be written
  std::uint64_t staged_bytes = 0;  // read, on their way to memory
  std::uint64_t written_bytes = 0;
  std::uint64_t written_blocks = 0;
  std::uint64_t dropped_blocks = 0;  // not written: no room, or the disk refused
  std::uint64_t read_bytes = 0;
  std::uint64_t read_blocks = 0;
  std::uint64_t damaged_files = 0;
  std::uint64_t write_errors = 0;
  std::uint64_t read_errors = 0;
  std::uint64_t evicted_files = 0;
  std::uint64_t wear_bytes = 0;  // ever written to the directory, by all processes
};

}  // namespace cache
