#pragma once

#include <cstdint>
#include <string>

namespace cache {

// The shared tier in numbers.
struct RemoteStats {
  std::string server;      // host:port/database
  bool available = false;  // its last answer was one
  std::uint64_t lookups = 0;
  std::uint64_t found_blocks = 0;  // by lookups
  std::uint64_t queued_bytes = 0;  // to be written
  std::uint64_t staged_bytes = 0;  // read, on their way to memory
  std::uint64_t written_bytes = 0;
  std::uint64_t written_blocks = 0;
  std::uint64_t dropped_blocks = 0;  // not written: no room, or the server refused
  std::uint64_t read_bytes = 0;
  std::uint64_t read_blocks = 0;
  std::uint64_t missing_blocks = 0;  // said to be there, and gone when they were read
  std::uint64_t damaged_blocks = 0;  // not what was written
  std::uint64_t timeouts = 0;
  std::uint64_t errors = 0;  // no connection, not the protocol, refused
};

}  // namespace cache
