// FpduReader takes the octets of a TCP stream, finds the FPDUs in them (RFC 5044 §6), and places each payload directly
// at its destination.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "rdma/iwarp/crc32c.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/mpa.h"
#include "rdma/iwarp/terminate.h"

namespace penstock::rdma::iwarp {

// The receiver of ULPDUs, one after the other.
class UlpduSink {
 public:
  virtual ~UlpduSink() = default;

  // Handles the DDP header of a ULPDU of `length` octets. If the sink accepts the ULPDU, it returns true and sets
  // `destination` to the memory for the whole payload (the rest of the ULPDU). If it refuses the ULPDU, it remembers
  // the reason and returns false.
  virtual bool HandleHeader(ConstBytes header, size_t length, Bytes& destination) = 0;
  // Returns true if the rest of the current payload may be placed. Its region may have been invalidated in the
  // meantime.
  virtual bool MayPlace() = 0;
  // Handles the end of a complete and valid FPDU. Returns false if the sink accepts no more ULPDUs.
  virtual bool HandleEnd() = 0;
  // The FPDU of the refused ULPDU is valid, so that the sink can report the refusal.
  virtual void HandleRefused() = 0;
  // Handles an FPDU that is malformed or has a wrong check value.
  virtual void HandleFramingError(TerminateCode code) = 0;
};

// The caller receives the octets: Wants() returns the memory for the next octets, and HandleReceived() takes their
// number. The rest of a payload that has begun goes directly to its destination. All other octets pass through
// `staging`. The reader keeps no octets there from one call to the next, so that all connections of a loop can share
// one staging area.
//
// An FPDU that arrives complete in the staging area is checked before its payload is placed. The payload of a larger
// FPDU is placed before its CRC arrives. If that CRC is wrong, the connection ends and the message is never delivered.
// For this reason DDP separates placement from delivery (RFC 5041 §5.4), and the owner of an STag must not use the
// memory before delivery (RFC 5040 §5.5).
class FpduReader {
 public:
  FpduReader(Framing framing, UlpduSink& sink) : framing_(framing), sink_(sink) {}

  // Memory for the next octets: first `direct`, then `staging`. The latter begins at staging[0] of the staging area and
  // may be shorter than the area.
  struct Places {
    Bytes direct;  // may be empty
    Bytes staging;
  };
  Places Wants(Bytes staging);
  // Takes the next `size` octets of the stream, which are in the memory from the last Wants() with the same staging
  // area.
  void HandleReceived(size_t size, ConstBytes staging);

  // Ignores all further octets.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  // True between two FPDUs. False if the stream ends here in the middle of an FPDU.
  bool at_boundary() const { return state_ == State::kHeader && header_have_ == 0; }
  uint64_t fpdus() const { return fpdus_; }
  // Octets of payload that were placed without passing through the staging area.
  uint64_t octets_direct() const { return octets_direct_; }

 private:
  enum class State : uint8_t { kHeader, kPayload, kTrailer };

  void TakeWithMarkers(ConstBytes bytes);
  void Take(ConstBytes bytes);
  // Takes octets for the current part of the FPDU (header, payload or trailer). Returns the number of octets taken.
  size_t TakePart(ConstBytes bytes);
  size_t TakeHeader(ConstBytes bytes);
  size_t TakePayload(ConstBytes bytes);
  size_t TakeTrailer(ConstBytes bytes);
  void EndHeader(ConstBytes following);
  void EndFpdu();
  void HandleMarker();
  void CheckPlacement();
  void Fail(TerminateCode code);

  size_t header_size() const { return kLengthSize + DdpHeaderSize(header_[kLengthSize]); }
  size_t ulpdu_length() const { return LoadBig<uint16_t>(header_.data()); }
  size_t trailer_size() const { return PadSize(ulpdu_length()) + kCrcSize; }
  bool checking() const { return framing_.crc && !verified_; }

  const Framing framing_;
  UlpduSink& sink_;
  State state_ = State::kHeader;
  bool stopped_ = false;

  // The current FPDU.
  std::array<std::byte, kLengthSize + UntaggedHeader::kSize> header_;
  uint8_t header_have_ = 0;
  std::array<std::byte, 3 + kCrcSize> trailer_;
  uint8_t trailer_have_ = 0;
  bool refused_ = false;
  bool verified_ = false;  // its check value is right; known before the payload is placed
  bool marker_wrong_ = false;
  size_t payload_left_ = 0;
  Bytes destination_;  // for the rest of the payload; empty if the payload is dropped
  Crc32c crc_;

  // The number of FPDUs since the last large one. Soon after a large FPDU the reader expects another one and reads only
  // a few octets ahead, so that its payload goes directly to its destination too.
  unsigned since_bulk_ = ~0u;

  // Markers.
  uint64_t position_ = 0;    // the position in the stream
  uint64_t fpdu_start_ = 0;  // position of the length field of the current FPDU
  std::array<std::byte, kMarkerSize> marker_;

  uint64_t fpdus_ = 0;
  uint64_t octets_direct_ = 0;
};

}  // namespace penstock::rdma::iwarp
