// The octets of one file in memory: blocks of up to 1 MiB, absent where nothing was ever written.
#pragma once

#include <cstdint>
#include <map>

#include "base/buffer.h"
#include "base/data.h"

namespace penstock::fs::memory {

// Not thread-safe. What Read gave out stays as it was: a block that a reader still holds is copied before it is
// changed.
class Content {
 public:
  static constexpr uint64_t kBlockSize = 1 << 20;

  // `count` octets from `offset`, zeros where there are none. Shares the block's memory where the range lies in one.
  Slice Read(uint64_t offset, size_t count, BufferPool& pool) const;
  void Write(uint64_t offset, const Data& data, BufferPool& pool);
  // Forgets what lies at and beyond `size`.
  void Truncate(uint64_t size);
  uint64_t used() const { return used_; }

 private:
  struct Block {
    BufferRef memory;
    size_t filled = 0;  // octets of `memory` that count; those that follow are zeros
  };
  // Makes room for [begin, end) of the block and gives that memory, for the caller to write to.
  Bytes Prepare(Block& block, size_t begin, size_t end, BufferPool& pool);

  std::map<uint64_t, Block> blocks_;  // by offset / kBlockSize
  uint64_t used_ = 0;                 // sum of `filled`
};

}  // namespace penstock::fs::memory
