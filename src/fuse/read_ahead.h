// Reads one open file for programs. While they read it from the beginning to the end, the next octets are on their way
// before they are asked for.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/buffer.h"
#include "base/loop.h"
#include "base/signal.h"
#include "base/task.h"
#include "client/file.h"

namespace penstock::fuse {

// Belongs to the loop. Held by shared_ptr, because READs that nobody waits for may end after the file is released.
class ReadAhead : public std::enable_shared_from_this<ReadAhead> {
 public:
  // `loop` outlives this object. `block` is the size of one READ. At most `window` octets are read ahead.
  ReadAhead(Loop& loop, std::shared_ptr<client::File> file, uint32_t block, size_t window)
      : loop_(loop), file_(std::move(file)), block_(block), window_limit_(window) {}

  // Returns `count` octets in pieces, fewer only at the end of the file. `size` is the size of the file as far as it is
  // known; nothing is read ahead behind it.
  Task<client::Result<std::vector<Slice>>> Read(uint64_t offset, size_t count, uint64_t size);
  // The octets change: later reads ask the server.
  void Forget(uint64_t offset, uint64_t end);
  void ForgetAll() { Forget(0, ~uint64_t{0}); }

  // Waits until no READ is under way. Then the file may be closed.
  Task<void> Quiet();

 private:
  struct Block {
    uint64_t offset = 0;
    uint32_t wanted = 0;
    Slice octets{};
    bool ready = false;
    bool stale = false;
    std::optional<client::Error> error{};
  };
  using BlockPointer = std::shared_ptr<Block>;

  BlockPointer Find(uint64_t offset) const;
  BlockPointer Begin(uint64_t offset, uint64_t size);
  Task<void> Load(std::shared_ptr<ReadAhead> self, BlockPointer block);
  // Fewer octets than `count` only at the end of the file.
  Task<client::Result<Slice>> ReadFully(uint64_t offset, size_t count);
  void Drop(const BlockPointer& block);

  Loop& loop_;
  const std::shared_ptr<client::File> file_;
  const uint32_t block_;
  const size_t window_limit_;
  std::list<BlockPointer> blocks_;
  uint64_t next_ = 0;  // where a program goes on that reads in order
  size_t window_ = 0;
  size_t under_way_ = 0;
  Signal changed_;
};

}  // namespace penstock::fuse
