#include "fuse/read_ahead.h"

#include <algorithm>
#include <utility>

namespace penstock::fuse {

using client::Result;

namespace {

// The kernel reads in order, but its requests may overtake one another by so much.
constexpr uint64_t kOvertaking = 2 << 20;

// Whether memory that another owner has allocated may be kept for the octets: they are not a small part of it.
bool FillsItsBuffer(const Slice& octets) { return octets.owner() && octets.size() >= octets.owner()->capacity() / 4; }

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
  auto read = co_await ReadFully(block->offset, block->wanted);
  if (read) {
    block->octets = *std::move(read);
  } else {
    block->error = std::move(read).error();
  }
  block->ready = true;
  --under_way_;
  changed_.Notify();
}

Task<Result<Slice>> ReadAhead::ReadFully(uint64_t offset, size_t count) {
  const BufferRef buffer = loop_.buffers().Allocate(count);
  const Bytes into = buffer->bytes().first(count);
  size_t done = 0;
  while (done < count) {
    const Bytes rest = into.subspan(done);
    PENSTOCK_CO_TRY(const client::File::FetchReply reply, co_await file_->Fetch(offset + done, rest));
    const Slice& octets = reply.octets;
    if (octets.size() == count && FillsItsBuffer(octets)) co_return octets;
    done += reply.CopyTo(rest).count;
    if (reply.eof || octets.empty()) break;
  }
  co_return Slice(buffer, into.first(done));
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
      ++under_way_;
      auto read = co_await ReadFully(at, end - at);
      --under_way_;
      changed_.Notify();
      if (!read) co_return std::unexpected(std::move(read).error());
      pieces.push_back(*std::move(read));
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
    const size_t octets = block->octets.size();
    if (in_block >= octets) {
      // The file has become shorter.
      Drop(block);
      break;
    }
    const size_t part = std::min<uint64_t>(octets - in_block, end - at);
    pieces.push_back(block->octets.Sub(in_block, part));
    at += part;
    if (octets < block->wanted && in_block + part == octets) break;
  }
  co_return pieces;
}

Task<void> ReadAhead::Quiet() {
  const std::shared_ptr<ReadAhead> self = shared_from_this();
  while (under_way_ > 0) co_await changed_;
}

}  // namespace penstock::fuse
