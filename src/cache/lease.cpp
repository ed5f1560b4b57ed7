#include <cassert>
#include <utility>

#include "cache/prefix_cache.h"

namespace cache {

Lease::Lease(Lease&& other) noexcept { *this = std::move(other); }

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    assert(!live_ && "a lease must be released before it is overwritten");
    cached_len_ = std::exchange(other.cached_len_, 0);
    prompt_len_ = std::exchange(other.prompt_len_, 0);
    block_tables_ = std::exchange(other.block_tables_, {});
    first_kept_ = std::exchange(other.first_kept_, {});
    snapshots_ = std::exchange(other.snapshots_, {});
    nodes_ = std::exchange(other.nodes_, {});
    root_key_ = other.root_key_;
    live_ = std::exchange(other.live_, false);
    counted_ = std::exchange(other.counted_, false);
  }
  return *this;
}

Lease::~Lease() { assert(!live_ && "a lease must be given back with Release"); }

}  // namespace cache
