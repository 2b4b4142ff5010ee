// From a stream of octets to FPDUs (RFC 5044 §6), straight into the memory where each payload belongs.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "rdma/iwarp/crc32c.h"
#include "rdma/iwarp/ddp_header.h"
#include "rdma/iwarp/mpa.h"
#include "rdma/iwarp/terminate.h"

namespace penstock::rdma::iwarp {

// Takes the ULPDUs, one after the other.
class UlpduSink {
 public:
  virtual ~UlpduSink() = default;

  // The DDP header of a ULPDU of `length` octets has come in. True: `destination` is where its payload (the rest) belongs,
  // all of it. False: it is refused, and the sink remembers why.
  virtual bool HandleHeader(ConstBytes header, size_t length, Bytes& destination) = 0;
  // Whether the payload under way still belongs there: its region may have been invalidated meanwhile.
  virtual bool MayPlace() = 0;
  // Its FPDU is complete and valid. False: the sink wants no more.
  virtual bool HandleEnd() = 0;
  // What HandleHeader() has refused stands in a valid FPDU: report it.
  virtual void HandleRefused() = 0;
  virtual void HandleFramingError(TerminateCode code) = 0;
};

// Octets come in from outside: Wants() says where the next ones should go, HandleReceived() how many have come. Payload of
// which more is to come goes directly to its destination; everything else passes through `staging`, of which nothing is
// kept from one call to the next, so that all connections of a loop can share one staging area.
//
// Placement and check values: an FPDU that is whole in the staging area is checked before anything of it is placed. The
// payload of a larger one is in place before its CRC has come in; a wrong one ends the connection and the message is never
// delivered. DDP separates placement from delivery for this (RFC 5041 §5.4), and an STag's owner may not look at the
// memory before delivery (RFC 5040 §5.5).
class FpduReader {
 public:
  FpduReader(Framing framing, UlpduSink& sink) : framing_(framing), sink_(sink) {}

  // Two places to be filled one after the other; the second begins with staging[0] and may be shorter than `staging`.
  struct Places {
    Bytes direct;  // may be empty
    Bytes staging;
  };
  Places Wants(Bytes staging);
  // The next `size` octets of the stream are where the last Wants() has said, with the same staging area.
  void HandleReceived(size_t size, ConstBytes staging);

  // No octet will be looked at any more.
  void Stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  // At the end of the stream: false where it breaks off in the middle of an FPDU.
  bool at_boundary() const { return state_ == State::kHeader && header_have_ == 0; }
  uint64_t fpdus() const { return fpdus_; }
  // Octets of payload that were placed without passing through the staging area.
  uint64_t octets_direct() const { return octets_direct_; }

 private:
  enum class State : uint8_t { kHeader, kPayload, kTrailer };

  void TakeWithMarkers(ConstBytes bytes);
  void Take(ConstBytes bytes);
  // Takes octets for the part of the FPDU that the reader is in; returns how many.
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

  // The FPDU under way.
  std::array<std::byte, kLengthSize + UntaggedHeader::kSize> header_;
  uint8_t header_have_ = 0;
  std::array<std::byte, 3 + kCrcSize> trailer_;
  uint8_t trailer_have_ = 0;
  bool refused_ = false;
  bool verified_ = false;  // its check value was compared before placing
  bool marker_wrong_ = false;
  size_t payload_left_ = 0;
  Bytes destination_;  // of what is left of the payload; empty where it is dropped
  Crc32c crc_;

  // FPDUs since the last large one. Soon after one another is to be expected, and little is read ahead of it, so that its
  // payload too goes directly to its destination.
  unsigned since_bulk_ = ~0u;

  // Markers.
  uint64_t position_ = 0;    // in the stream
  uint64_t fpdu_start_ = 0;  // position of the length field of the FPDU under way
  std::array<std::byte, kMarkerSize> marker_;

  uint64_t fpdus_ = 0;
  uint64_t octets_direct_ = 0;
};

}  // namespace penstock::rdma::iwarp
