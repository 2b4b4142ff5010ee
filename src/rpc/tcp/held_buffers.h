// Counts the memory of the buffers that hold the running calls of a connection.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <vector>

#include "base/buffer.h"

namespace penstock::rpc::tcp {

// Several small calls may share a buffer. It stays in use until the last of them has been executed, so that it counts
// once and with its whole size.
class HeldBuffers {
 public:
  // The total size of the buffers.
  size_t octets() const { return octets_; }

  // Adds a call that is in `buffer`. Null: the call is in no buffer, and does not count.
  void Add(const Buffer* buffer) {
    if (!buffer) return;
    // Search from the end: usually the previous call is in the same buffer.
    const auto found = std::find(held_.rbegin(), held_.rend(), buffer);
    if (found != held_.rend()) {
      ++found->calls;
      return;
    }
    held_.push_back({buffer, buffer->capacity(), 1});
    octets_ += buffer->capacity();
  }
  // Removes a call that has been executed. The buffer may be destroyed already; its address only identifies the entry.
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
