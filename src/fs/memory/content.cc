#include "fs/memory/content.h"

#include <algorithm>
#include <cstring>

namespace penstock::fs::memory {
namespace {

struct Piece {
  uint64_t block;
  size_t begin, end;  // within the block
};

Piece FirstPiece(uint64_t offset, uint64_t count) {
  const size_t begin = offset % Content::kBlockSize;
  return {offset / Content::kBlockSize, begin, static_cast<size_t>(std::min(begin + count, Content::kBlockSize))};
}

}  // namespace

Slice Content::Read(uint64_t offset, size_t count, BufferPool& pool) const {
  if (count == 0) return {};
  const Piece first = FirstPiece(offset, count);
  if (auto found = blocks_.find(first.block);
      found != blocks_.end() && first.end - first.begin == count && first.end <= found->second.filled) {
    return {found->second.memory, found->second.memory->bytes().subspan(first.begin, count)};
  }
  BufferRef gathered = pool.Allocate(count);
  for (size_t done = 0; done < count;) {
    const Piece piece = FirstPiece(offset + done, count - done);
    const size_t length = piece.end - piece.begin;
    std::byte* to = gathered->data() + done;
    size_t present = 0;
    if (auto found = blocks_.find(piece.block); found != blocks_.end() && found->second.filled > piece.begin) {
      present = std::min(piece.end, found->second.filled) - piece.begin;
      std::memcpy(to, found->second.memory->data() + piece.begin, present);
    }
    std::memset(to + present, 0, length - present);
    done += length;
  }
  const ConstBytes bytes = gathered->bytes().first(count);
  return {std::move(gathered), bytes};
}

void Content::Write(uint64_t offset, ConstBytes data, BufferPool& pool) {
  for (size_t done = 0; done < data.size();) {
    const Piece piece = FirstPiece(offset + done, data.size() - done);
    const Bytes room = Prepare(blocks_[piece.block], piece.begin, piece.end, pool);
    CopyBytes(room, data.subspan(done, room.size()));
    done += room.size();
  }
}

Bytes Content::Prepare(Block& block, size_t begin, size_t end, BufferPool& pool) {
  if (!block.memory.unique() || block.memory->capacity() < end) {
    // Doubling avoids a copy of the file for each append.
    const size_t wanted = std::max(end, std::min<size_t>(2 * block.filled, kBlockSize));
    BufferRef larger = pool.Allocate(wanted);
    if (block.filled != 0) std::memcpy(larger->data(), block.memory->data(), block.filled);
    block.memory = std::move(larger);
  }
  if (begin > block.filled) std::memset(block.memory->data() + block.filled, 0, begin - block.filled);
  if (end > block.filled) {
    used_ += end - block.filled;
    block.filled = end;
  }
  return block.memory->bytes().subspan(begin, end - begin);
}

void Content::Truncate(uint64_t size) {
  auto at = blocks_.lower_bound(size / kBlockSize);
  if (at != blocks_.end() && at->first == size / kBlockSize) {
    const size_t keep = size % kBlockSize;
    Block& last = at->second;
    if (last.filled > keep) {
      used_ -= last.filled - keep;
      last.filled = keep;
    }
    if (keep != 0) ++at;
  }
  while (at != blocks_.end()) {
    used_ -= at->second.filled;
    at = blocks_.erase(at);
  }
}

void Content::Drop(uint64_t block) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  used_ -= found->second.filled;
  blocks_.erase(found);
}

void Content::Reserve(uint64_t offset, uint64_t count, BufferPool& pool) {
  for (uint64_t done = 0; done < count;) {
    const Piece piece = FirstPiece(offset + done, count - done);
    Block& block = blocks_[piece.block];
    if (piece.end > block.filled) {
      const Bytes room = Prepare(block, block.filled, piece.end, pool);
      std::memset(room.data(), 0, room.size());
    }
    done += piece.end - piece.begin;
  }
}

void Content::Clear(uint64_t offset, uint64_t count, BufferPool& pool) {
  for (uint64_t done = 0; done < count;) {
    const Piece piece = FirstPiece(offset + done, count - done);
    done += piece.end - piece.begin;
    const auto found = blocks_.find(piece.block);
    if (found == blocks_.end() || found->second.filled <= piece.begin) continue;
    Block& block = found->second;
    if (piece.end < block.filled) {
      const Bytes room = Prepare(block, piece.begin, piece.end, pool);
      std::memset(room.data(), 0, room.size());
    } else if (piece.begin == 0) {
      Drop(piece.block);
    } else {
      used_ -= block.filled - piece.begin;
      block.filled = piece.begin;
    }
  }
}

void Content::Share(uint64_t offset, const Content& from, uint64_t from_offset, uint64_t count, BufferPool& pool) {
  for (uint64_t done = 0; done < count;) {
    const uint64_t at = offset + done;
    const uint64_t from_at = from_offset + done;
    // The part of the range that lies in one block of both files.
    const uint64_t size = std::min({kBlockSize - at % kBlockSize, kBlockSize - from_at % kBlockSize, count - done});
    done += size;
    if (size < kBlockSize) {
      Write(at, from.Read(from_at, size, pool).bytes(), pool);
      continue;
    }
    Drop(at / kBlockSize);
    const auto found = from.blocks_.find(from_at / kBlockSize);
    if (found == from.blocks_.end()) continue;
    blocks_[at / kBlockSize] = found->second;
    used_ += found->second.filled;
  }
}

std::optional<uint64_t> Content::FindData(uint64_t offset) const {
  for (auto at = blocks_.lower_bound(offset / kBlockSize); at != blocks_.end(); ++at) {
    const uint64_t begin = at->first * kBlockSize;
    const uint64_t from = std::max(begin, offset);
    if (from < begin + at->second.filled) return from;
  }
  return std::nullopt;
}

uint64_t Content::FindHole(uint64_t offset) const {
  for (auto at = blocks_.find(offset / kBlockSize); at != blocks_.end(); at = blocks_.find(offset / kBlockSize)) {
    const uint64_t end = at->first * kBlockSize + at->second.filled;
    if (offset >= end) break;
    offset = end;
  }
  return offset;
}

}  // namespace penstock::fs::memory
