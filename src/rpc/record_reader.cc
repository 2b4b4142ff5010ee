#include <algorithm>
#include <cassert>

#include "rpc/record_marking.h"

namespace penstock::rpc {
namespace {

// The minimum room at the end of the staging buffer that is worth a receive call.
constexpr size_t kLeastRoom = 4 << 10;

}  // namespace

Bytes RecordReader::Want() {
  assert(!failed_ && awaited_ == 0);
  // Within a fragment of a record with its own buffer, the staging buffer is empty: TakeRecord() has moved its octets.
  if (record_ && in_fragment_ && Staged() == 0) {
    const size_t room = std::min(record_->capacity() - record_size_, fragment_left_);
    if (room >= std::min(fragment_left_, kLeastRoom)) {
      direct_ = true;
      return record_->bytes().subspan(record_size_, room);
    }
  }
  direct_ = false;
  const size_t room = staging_ ? staging_->capacity() - filled_ : 0;
  const bool small_fragment_fits = in_fragment_ && !record_ && fragment_left_ - Staged() <= room;
  if (room < kLeastRoom && !small_fragment_fits) {
    RenewStaging();
  } else if (Staged() == 0 && parsed_ > 0 && staging_.unique()) {
    parsed_ = filled_ = 0;
  }
  Bytes free = staging_->bytes().subspan(filled_);
  if (last_was_large_ && !in_fragment_) free = free.first(std::min(free.size(), kBelievedFrom + kRecordHeaderSize));
  return free;
}

// Makes room at the end of the staging buffer. The unparsed octets are at most kBelievedFrom, or less than a header.
void RecordReader::RenewStaging() {
  BufferRef fresh = staging_.unique() && parsed_ >= Staged() ? staging_ : pool_.Allocate(kStagingSize);
  const size_t staged = Staged();
  CopyBytes(fresh->bytes(), staged ? ConstBytes(staging_->bytes().subspan(parsed_, staged)) : ConstBytes());
  staging_ = std::move(fresh);
  parsed_ = 0;
  filled_ = staged;
}

void RecordReader::Received(size_t count) {
  if (direct_) {
    record_size_ += count;
    fragment_left_ -= count;
  } else {
    filled_ += count;
  }
}

bool RecordReader::StartFragment() {
  if (Staged() < kRecordHeaderSize) return false;
  const uint32_t header = LoadBig<uint32_t>(staging_->data() + parsed_);
  parsed_ += kRecordHeaderSize;
  last_fragment_ = header & kLastFragment;
  fragment_left_ = header & ~kLastFragment;
  in_fragment_ = true;
  failed_ = fragment_left_ > max_record_ - record_size_;
  return !failed_;
}

std::optional<Slice> RecordReader::TakeRecord() {
  while (!failed_) {
    if (!in_fragment_ && !StartFragment()) return std::nullopt;
    const size_t available = std::min(Staged(), fragment_left_);
    const bool whole = available == fragment_left_;
    if (whole && last_fragment_ && !record_ && !record_open_) {
      Slice record(staging_, ConstBytes(staging_->bytes().subspan(parsed_, available)));
      parsed_ += available;
      in_fragment_ = false;
      last_was_large_ = false;
      return record;
    }
    const bool fits_staging = fragment_left_ <= staging_->capacity() - parsed_;
    if (!whole && last_fragment_ && !record_ && !record_open_ && (fits_staging || available < kBelievedFrom)) {
      return std::nullopt;
    }
    if (!admitted_ && record_size_ + available >= kBelievedFrom) {
      awaited_ = BufferPool::CapacityFor(last_fragment_ ? record_size_ + fragment_left_ : max_record_);
      return std::nullopt;
    }
    MoveToRecord(available);
    if (fragment_left_ > 0) return std::nullopt;
    in_fragment_ = false;
    record_open_ = true;
    if (last_fragment_) return FinishRecord();
  }
  return std::nullopt;
}

void RecordReader::MoveToRecord(size_t count) {
  const size_t least = record_size_ + count;
  const size_t announced = record_size_ + fragment_left_;
  const size_t capacity = record_ ? record_->capacity() : 0;
  const size_t wanted = least >= kBelievedFrom ? announced : least;
  if (wanted > capacity) {
    // At least twice as large as before, so that many small fragments do not copy the record over and over.
    BufferRef larger = pool_.Allocate(std::max(wanted, std::min(2 * capacity, max_record_)));
    if (record_) CopyBytes(larger->bytes(), record_->bytes().first(record_size_));
    record_ = std::move(larger);
  }
  if (count == 0) return;
  CopyBytes(record_->bytes().subspan(record_size_), staging_->bytes().subspan(parsed_, count));
  parsed_ += count;
  record_size_ += count;
  fragment_left_ -= count;
}

Slice RecordReader::FinishRecord() {
  ConstBytes bytes = record_ ? ConstBytes(record_->bytes().first(record_size_)) : ConstBytes();
  Slice record(std::move(record_), bytes);
  last_was_large_ = record_size_ > kStagingSize;
  record_size_ = 0;
  record_open_ = false;
  admitted_ = false;
  return record;
}

}  // namespace penstock::rpc
