#include <algorithm>
#include <cassert>

#include "rpc/record_marking.h"

namespace penstock::rpc {
namespace {

constexpr std::byte kPadding[3] = {};

size_t PaddingOf(size_t size) { return RoundUp(size, 4) - size; }

}  // namespace

uint64_t RecordWriter::Push(xdr::Message message) {
  const size_t size = message.flat_size();
  assert(size < kLastFragment);
  assert(message.placed.empty());
  if (empty()) {
    queue_.clear();
    head_ = 0;
  }
  const size_t memory = message.memory() + sizeof(Queued);
  Queued& queued = queue_.emplace_back(std::move(message), size + kRecordHeaderSize, memory);
  StoreBig(queued.header, static_cast<uint32_t>(size) | kLastFragment);
  queued_octets_ += queued.size;
  queued_memory_ += memory;
  return ++pushed_;
}

size_t RecordWriter::Queued::PartSize(size_t part) const {
  if (part == 0) return kRecordHeaderSize;
  const size_t item = (part - 1) / 3;
  switch ((part - 1) % 3) {
    case 0: {
      const size_t begin = item == 0 ? 0 : message.items[item - 1].offset;
      const size_t end = item == message.items.size() ? message.stream.size() : message.items[item].offset;
      return end - begin;
    }
    case 1:
      return message.items[item].data.size();
    default:
      return PaddingOf(message.items[item].data.size());
  }
}

const Data* RecordWriter::Queued::FilePart(size_t part) const {
  if (part == 0 || (part - 1) % 3 != 1) return nullptr;
  const Data& data = message.items[(part - 1) / 3].data;
  return data.is_file() ? &data : nullptr;
}

ConstBytes RecordWriter::Queued::MemoryPart(size_t part) const {
  if (part == 0) return header;
  const size_t item = (part - 1) / 3;
  switch ((part - 1) % 3) {
    case 0:
      return message.stream.bytes().subspan(item == 0 ? 0 : message.items[item - 1].offset, PartSize(part));
    case 1:
      return message.items[item].data.bytes();
    default:
      return ConstBytes(kPadding).first(PartSize(part));
  }
}

std::optional<RecordWriter::FileRange> RecordWriter::NextFile() const {
  if (empty()) return std::nullopt;
  const Data* data = queue_[head_].FilePart(part_);
  if (!data) return std::nullopt;
  const size_t length = data->size() - part_offset_;
  return FileRange{data, part_offset_, length, queued_octets_ > length};
}

RecordWriter::Pieces RecordWriter::Gather(std::span<iovec> to, size_t most_octets) const {
  Pieces pieces;
  size_t part = part_;
  size_t offset = part_offset_;
  for (size_t i = head_; i < queue_.size(); ++i, part = 0) {
    const Queued& queued = queue_[i];
    for (; part < queued.parts(); ++part, offset = 0) {
      const size_t size = queued.PartSize(part) - offset;
      if (size == 0) continue;
      if (queued.FilePart(part)) {
        pieces.more = true;
        return pieces;
      }
      if (pieces.count == to.size() || pieces.octets == most_octets) return pieces;
      const ConstBytes bytes = queued.MemoryPart(part).subspan(offset);
      const size_t taken = std::min(size, most_octets - pieces.octets);
      to[pieces.count++] = {const_cast<std::byte*>(bytes.data()), taken};
      pieces.octets += taken;
      if (taken < size) return pieces;
    }
  }
  return pieces;
}

void RecordWriter::Sent(size_t octets) {
  assert(octets <= queued_octets_);
  queued_octets_ -= octets;
  part_offset_ += octets;
  while (!empty()) {
    Queued& head = queue_[head_];
    if (part_ == 0 && part_offset_ >= head.size) {
      part_offset_ -= head.size;
    } else {
      for (; part_ < head.parts(); ++part_) {
        const size_t size = head.PartSize(part_);
        if (part_offset_ < size) return;
        part_offset_ -= size;
      }
    }
    head.message = {};
    queued_memory_ -= head.memory;
    part_ = 0;
    ++head_;
    ++sent_;
  }
  // Under steady load the queue is never empty, so drop its sent half periodically.
  if (head_ >= 64 && head_ * 2 >= queue_.size()) {
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(head_));
    head_ = 0;
  }
}

void RecordWriter::Clear() {
  queue_.clear();
  head_ = part_ = part_offset_ = queued_octets_ = queued_memory_ = 0;
}

}  // namespace penstock::rpc
