// The octets of one file in memory: blocks of up to 1 MiB, absent where nothing was ever written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

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
  void Write(uint64_t offset, ConstBytes data, BufferPool& pool);
  // Forgets what lies at and beyond `size`.
  void Truncate(uint64_t size);
  // Zeros where there are none yet, so that nothing more is used when they are written.
  void Reserve(uint64_t offset, uint64_t count, BufferPool& pool);
  // Zeros, without using memory for them where a block can do without.
  void Clear(uint64_t offset, uint64_t count, BufferPool& pool);
  // What is of `from`, by sharing its memory block by block where both offsets allow it.
  void Share(uint64_t offset, const Content& from, uint64_t from_offset, uint64_t count, BufferPool& pool);
  // The first octet at or after `offset` that is kept, or not kept. Absent: none is kept from there on.
  std::optional<uint64_t> FindData(uint64_t offset) const;
  uint64_t FindHole(uint64_t offset) const;
  uint64_t used() const { return used_; }

 private:
  struct Block {
    BufferRef memory;
    size_t filled = 0;  // octets of `memory` that count; those that follow are zeros
  };
  // Makes room for [begin, end) of the block and gives that memory, for the caller to write to.
  Bytes Prepare(Block& block, size_t begin, size_t end, BufferPool& pool);
  void Drop(uint64_t block);

  std::map<uint64_t, Block> blocks_;  // by offset / kBlockSize
  uint64_t used_ = 0;                 // sum of `filled`
};

}  // namespace penstock::fs::memory
