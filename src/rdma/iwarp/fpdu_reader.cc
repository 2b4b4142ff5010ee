#include "rdma/iwarp/fpdu_reader.h"

#include <algorithm>
#include <cassert>

namespace penstock::rdma::iwarp {
namespace {

// An FPDU of this size or more counts as part of a bulk transfer.
constexpr size_t kBulkUlpdu = 16 << 10;
// For this number of FPDUs after a large one, the reader reads at most kBulkReadAhead octets ahead.
constexpr unsigned kBulkMemory = 8;
constexpr size_t kBulkReadAhead = 4096;

}  // namespace

FpduReader::Places FpduReader::Wants(Bytes staging) {
  CheckPlacement();
  if (framing_.markers || stopped_) return {{}, staging};
  if (state_ == State::kPayload && !destination_.empty()) {
    if (ulpdu_length() < kBulkUlpdu) return {destination_, staging};
    // In the middle of a message the next FPDU has the same header size: read up to the end of its header.
    const bool last = SegmentControl::Parse(&header_[kLengthSize]).last;
    const size_t ahead = last ? kBulkReadAhead : trailer_size() + header_size();
    return {destination_, staging.first(std::min(staging.size(), ahead))};
  }
  return {{}, since_bulk_ < kBulkMemory ? staging.first(std::min(staging.size(), kBulkReadAhead)) : staging};
}

void FpduReader::HandleReceived(size_t size, ConstBytes staging) {
  if (stopped_) return;
  size_t direct = 0;
  if (!framing_.markers && state_ == State::kPayload && !destination_.empty()) {
    direct = std::min(size, payload_left_);
    if (checking()) crc_.Update(destination_.first(direct));
    destination_ = destination_.subspan(direct);
    payload_left_ -= direct;
    octets_direct_ += direct;
    if (payload_left_ == 0) state_ = State::kTrailer;
  }
  const ConstBytes staged = staging.first(size - direct);
  if (framing_.markers) {
    TakeWithMarkers(staged);
  } else {
    Take(staged);
  }
}

void FpduReader::TakeWithMarkers(ConstBytes bytes) {
  while (!bytes.empty() && !stopped_) {
    const size_t phase = position_ % kMarkerInterval;
    if (phase < kMarkerSize) {
      const size_t size = std::min(bytes.size(), kMarkerSize - phase);
      CopyBytes(Bytes(marker_).subspan(phase), bytes.first(size));
      position_ += size;
      bytes = bytes.subspan(size);
      if (phase + size == kMarkerSize) HandleMarker();
    } else {
      const size_t size = std::min(bytes.size(), kMarkerInterval - phase);
      // An FPDU may end in this part; the next one starts at the same position.
      ConstBytes part = bytes.first(size);
      while (!part.empty() && !stopped_) {
        if (at_boundary()) fpdu_start_ = position_;
        const size_t taken = TakePart(part);
        position_ += taken;
        part = part.subspan(taken);
      }
      bytes = bytes.subspan(size);
    }
  }
}

void FpduReader::HandleMarker() {
  // A marker between FPDUs belongs to the FPDU that follows (RFC 5044 §4.3). The CRC covers every marker. The two low
  // bits of the pointer are ignored.
  if (framing_.crc) crc_.Update(marker_);
  const size_t pointer = LoadBig<uint16_t>(&marker_[2]) & ~3u;
  const uint64_t marker_start = position_ - kMarkerSize;
  const uint64_t expected = at_boundary() ? 0 : marker_start - fpdu_start_;
  if (pointer != expected) marker_wrong_ = true;
}

void FpduReader::Take(ConstBytes bytes) {
  while (!bytes.empty() && !stopped_) {
    bytes = bytes.subspan(TakePart(bytes));
  }
}

size_t FpduReader::TakePart(ConstBytes bytes) {
  switch (state_) {
    case State::kHeader:
      return TakeHeader(bytes);
    case State::kPayload:
      return TakePayload(bytes);
    case State::kTrailer:
      return TakeTrailer(bytes);
  }
  return 0;
}

size_t FpduReader::TakeHeader(ConstBytes bytes) {
  // The third octet determines which of the two DDP headers follows.
  const size_t need = header_have_ <= kLengthSize ? kLengthSize + 1 : header_size();
  const size_t size = std::min(bytes.size(), need - header_have_);
  CopyBytes(Bytes(header_).subspan(header_have_), bytes.first(size));
  if (framing_.crc) crc_.Update(bytes.first(size));
  header_have_ = static_cast<uint8_t>(header_have_ + size);
  if (header_have_ >= kLengthSize && ulpdu_length() < TaggedHeader::kSize) {
    Fail(terminate::kUnspecified);  // no room for a DDP header
  } else if (header_have_ > kLengthSize) {
    if (ulpdu_length() < header_size() - kLengthSize) {
      Fail(terminate::kUnspecified);
    } else if (header_have_ == header_size()) {
      EndHeader(bytes.subspan(size));
    }
  }
  return size;
}

void FpduReader::EndHeader(ConstBytes following) {
  payload_left_ = ulpdu_length() - (header_size() - kLengthSize);
  if (framing_.crc && !framing_.markers && following.size() >= payload_left_ + trailer_size()) {
    const size_t covered = payload_left_ + trailer_size() - kCrcSize;
    crc_.Update(following.first(covered));
    if (!Equal(crc_.Wire(), following.subspan(covered, kCrcSize))) return Fail(terminate::kCrc);
    verified_ = true;
  }
  const ConstBytes ddp_header = ConstBytes(header_).subspan(kLengthSize, header_size() - kLengthSize);
  destination_ = {};
  refused_ = !sink_.HandleHeader(ddp_header, ulpdu_length(), destination_);
  assert(refused_ || destination_.size() == payload_left_);
  if (refused_ && !checking()) {
    ++fpdus_;  // counts as valid: it has no check value, or the check value is right
    stopped_ = true;
    sink_.HandleRefused();
    return;
  }
  state_ = payload_left_ > 0 ? State::kPayload : State::kTrailer;
}

size_t FpduReader::TakePayload(ConstBytes bytes) {
  const size_t size = std::min(bytes.size(), payload_left_);
  if (checking()) crc_.Update(bytes.first(size));
  if (!destination_.empty()) {
    CopyBytes(destination_, bytes.first(size));
    destination_ = destination_.subspan(size);
  }
  payload_left_ -= size;
  if (payload_left_ == 0) state_ = State::kTrailer;
  return size;
}

size_t FpduReader::TakeTrailer(ConstBytes bytes) {
  const size_t pad = PadSize(ulpdu_length());
  const size_t size = std::min(bytes.size(), trailer_size() - trailer_have_);
  if (checking() && trailer_have_ < pad) crc_.Update(bytes.first(std::min(size, pad - trailer_have_)));
  CopyBytes(Bytes(trailer_).subspan(trailer_have_), bytes.first(size));
  trailer_have_ = static_cast<uint8_t>(trailer_have_ + size);
  if (trailer_have_ == trailer_size()) EndFpdu();
  return size;
}

void FpduReader::EndFpdu() {
  if (checking()) {
    const size_t pad = PadSize(ulpdu_length());
    if (!Equal(crc_.Wire(), ConstBytes(trailer_).subspan(pad, kCrcSize))) return Fail(terminate::kCrc);
  }
  if (marker_wrong_) return Fail(terminate::kMarker);
  ++fpdus_;
  if (refused_) {
    stopped_ = true;
    sink_.HandleRefused();
    return;
  }
  since_bulk_ = ulpdu_length() >= kBulkUlpdu ? 0 : std::max(since_bulk_, since_bulk_ + 1);
  state_ = State::kHeader;
  header_have_ = 0;
  trailer_have_ = 0;
  verified_ = false;
  crc_ = {};
  if (!sink_.HandleEnd()) stopped_ = true;
}

void FpduReader::CheckPlacement() {
  if (state_ == State::kPayload && !destination_.empty() && !sink_.MayPlace()) {
    destination_ = {};
    refused_ = true;
  }
}

void FpduReader::Fail(TerminateCode code) {
  stopped_ = true;
  sink_.HandleFramingError(code);
}

}  // namespace penstock::rdma::iwarp
