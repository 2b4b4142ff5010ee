// The buffers that the calls of a connection are in, until they have been executed.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include "base/buffer.h"

namespace penstock::rpc::tcp {

// Small calls share a buffer, which is in use until the last of them has been executed: it counts once, and whole.
class HeldBuffers {
 public:
  // Octets of all of them.
  size_t octets() const { return octets_; }

  // A call is in `buffer`; null for none.
  void Add(const Buffer* buffer) {
    if (!buffer) return;
    // Mostly that of the call before.
    const auto found = std::find(held_.rbegin(), held_.rend(), buffer);
    if (found != held_.rend()) {
      ++found->calls;
      return;
    }
    held_.push_back({buffer, buffer->capacity(), 1});
    octets_ += buffer->capacity();
  }
  // The call has been executed. `buffer` may have gone.
  void Remove(const Buffer* buffer) {
    if (!buffer) return;
    const auto found = std::find(held_.begin(), held_.end(), buffer);
    assert(found != held_.end());
    if (--found->calls > 0) return;
    octets_ -= found->capacity;
    held_.erase(found);
  }

 private:
  struct Held {
    const Buffer* buffer;
    size_t capacity;
    size_t calls;

    bool operator==(const Buffer* other) const { return buffer == other; }
  };
  std::vector<Held> held_;  // the oldest first
  size_t octets_ = 0;
};

}  // namespace penstock::rpc::tcp
