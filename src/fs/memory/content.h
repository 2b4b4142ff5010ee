// The octets of one file in memory, in blocks of up to 1 MiB. Blocks that were never written do not exist.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "base/buffer.h"
#include "base/data.h"

namespace penstock::fs::memory {

// Not thread-safe. Data returned by Read() never changes: a block that a reader still holds is copied before it is
// changed.
class Content {
 public:
  static constexpr uint64_t kBlockSize = 1 << 20;

  // Returns `count` octets from `offset`; octets that do not exist are zeros. A range within one block shares the
  // block's memory.
  Slice Read(uint64_t offset, size_t count, BufferPool& pool) const;
  void Write(uint64_t offset, ConstBytes data, BufferPool& pool);
  // Drops the octets at and beyond `size`.
  void Truncate(uint64_t size);
  // Stores zeros where the file has holes, so that a later write needs no more memory.
  void Reserve(uint64_t offset, uint64_t count, BufferPool& pool);
  // Makes the range zeros, and frees memory where possible.
  void Clear(uint64_t offset, uint64_t count, BufferPool& pool);
  // Copies a range of `from`. Whole blocks share their memory where both offsets allow it.
  void Share(uint64_t offset, const Content& from, uint64_t from_offset, uint64_t count, BufferPool& pool);
  // Return the first octet at or after `offset` that is stored (FindData) or not stored (FindHole). FindData returns no
  // value if no stored octet follows.
  std::optional<uint64_t> FindData(uint64_t offset) const;
  uint64_t FindHole(uint64_t offset) const;
  uint64_t used() const { return used_; }

 private:
  struct Block {
    BufferRef memory;
    size_t filled = 0;  // stored octets of `memory`; the octets behind them are zeros
  };
  // Makes room for [begin, end) of the block, and returns this memory for the caller to write to.
  Bytes Prepare(Block& block, size_t begin, size_t end, BufferPool& pool);
  void Drop(uint64_t block);

  std::map<uint64_t, Block> blocks_;  // the key is offset / kBlockSize
  uint64_t used_ = 0;                 // sum of `filled`
};

}  // namespace penstock::fs::memory
