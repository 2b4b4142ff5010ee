#include "fuse/read_ahead.h"

#include <algorithm>
#include <utility>

namespace penstock::fuse {

using client::Result;

namespace {

// The kernel reads in order, but its requests may overtake one another by so much.
constexpr uint64_t kOvertaking = 2 << 20;

}  // namespace

ReadAhead::BlockPointer ReadAhead::Find(uint64_t offset) const {
  const auto has = [offset](const BlockPointer& each) {
    return !each->stale && offset >= each->offset && offset < each->offset + each->wanted;
  };
  const auto at = std::ranges::find_if(blocks_, has);
  return at == blocks_.end() ? nullptr : *at;
}

ReadAhead::BlockPointer ReadAhead::Begin(uint64_t offset, uint64_t size) {
  auto block = std::make_shared<Block>();
  block->offset = offset;
  block->wanted = static_cast<uint32_t>(std::min<uint64_t>(block_, size - offset));
  blocks_.push_back(block);
  ++under_way_;
  Spawn(Load(shared_from_this(), block));
  return block;
}

Task<void> ReadAhead::Load(std::shared_ptr<ReadAhead>, BlockPointer block) {
  block->buffer = loop_.buffers().Allocate(block->wanted);
  auto read = co_await ReadFully(block->offset, block->buffer->bytes().first(block->wanted));
  if (read) {
    block->count = static_cast<uint32_t>(*read);
  } else {
    block->error = std::move(read).error();
  }
  block->ready = true;
  --under_way_;
  changed_.Notify();
}

Task<Result<size_t>> ReadAhead::ReadFully(uint64_t offset, Bytes into) {
  size_t count = 0;
  while (count < into.size()) {
    PENSTOCK_CO_TRY(const client::File::ReadReply reply, co_await file_->Read(offset + count, into.subspan(count)));
    count += reply.count;
    if (reply.eof || reply.count == 0) break;
  }
  co_return count;
}

void ReadAhead::Drop(const BlockPointer& block) {
  const BlockPointer keep = block;
  blocks_.remove(keep);
}

void ReadAhead::Forget(uint64_t offset, uint64_t end) {
  blocks_.remove_if([&](const BlockPointer& each) {
    if (each->offset >= end || each->offset + each->wanted <= offset) return false;
    each->stale = true;
    return true;
  });
}

Task<Result<std::vector<Slice>>> ReadAhead::Read(uint64_t offset, size_t count, uint64_t size) {
  const std::shared_ptr<ReadAhead> self = shared_from_this();
  const uint64_t end = offset + count;
  const bool in_order = offset <= next_ + kOvertaking && offset + kOvertaking >= next_;
  next_ = in_order ? std::max(next_, end) : end;
  window_ = in_order ? std::min(std::max<size_t>(2 * window_, block_), window_limit_) : 0;
  if (in_order) {
    // What the program has behind it.
    const uint64_t behind = offset - std::min(offset, kOvertaking);
    blocks_.remove_if([&](const BlockPointer& each) { return each->ready && each->offset + each->wanted <= behind; });
  } else {
    blocks_.remove_if([](const BlockPointer& each) { return each->ready; });
  }

  std::vector<Slice> pieces;
  for (uint64_t at = offset; at < end;) {
    BlockPointer block = Find(at);
    // A size that is not known, or out of date: the server tells where the file ends.
    if (!block && (!in_order || at >= size)) {
      BufferRef buffer = loop_.buffers().Allocate(end - at);
      const Bytes into = buffer->bytes().first(end - at);
      ++under_way_;
      auto read = co_await ReadFully(at, into);
      --under_way_;
      changed_.Notify();
      if (!read) co_return std::unexpected(std::move(read).error());
      pieces.emplace_back(std::move(buffer), into.first(*read));
      break;
    }
    if (!block) block = Begin(at, size);
    for (uint64_t ahead = next_; in_order && ahead < std::min(size, next_ + window_);) {
      const BlockPointer there = Find(ahead);
      const BlockPointer next = there ? there : Begin(ahead, size);
      ahead = next->offset + next->wanted;
    }
    while (!block->ready) co_await changed_;
    if (block->error) {
      client::Error error = *block->error;
      Drop(block);
      // Not the octets before it: the kernel takes a short reply for the end of the file.
      co_return std::unexpected(std::move(error));
    }
    const uint64_t in_block = at - block->offset;
    if (in_block >= block->count) {
      // The file has become shorter.
      Drop(block);
      break;
    }
    const size_t part = std::min<uint64_t>(block->count - in_block, end - at);
    pieces.emplace_back(block->buffer, block->buffer->bytes().subspan(in_block, part));
    at += part;
    if (block->count < block->wanted && in_block + part == block->count) break;
  }
  co_return pieces;
}

Task<void> ReadAhead::Quiet() {
  const std::shared_ptr<ReadAhead> self = shared_from_this();
  while (under_way_ > 0) co_await changed_;
}

}  // namespace penstock::fuse
