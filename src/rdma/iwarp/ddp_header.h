// The headers of a DDP segment, with the fields of RDMAP in them (RFC 5041 §4, RFC 5040 §4.1).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/strong.h"
#include "rdma/endpoint.h"

namespace penstock::rdma::iwarp {

using Msn = Strong<struct MsnTag, uint32_t>;

// RFC 5040 §4.1, figure 4.
enum class Opcode : uint8_t {
  kWrite = 0,
  kReadRequest = 1,
  kReadResponse = 2,
  kSend = 3,
  kSendInvalidate = 4,
  kSendSolicited = 5,
  kSendSolicitedInvalidate = 6,
  kTerminate = 7,
};
std::string_view ToString(Opcode opcode);

constexpr bool Invalidates(Opcode opcode) {
  return opcode == Opcode::kSendInvalidate || opcode == Opcode::kSendSolicitedInvalidate;
}
constexpr bool Solicits(Opcode opcode) {
  return opcode == Opcode::kSendSolicited || opcode == Opcode::kSendSolicitedInvalidate;
}
// The opcode of a Send with these properties.
constexpr Opcode SendOpcode(bool solicited, bool invalidates) {
  if (invalidates) return solicited ? Opcode::kSendSolicitedInvalidate : Opcode::kSendInvalidate;
  return solicited ? Opcode::kSendSolicited : Opcode::kSend;
}

// The untagged queues (RFC 5040 §4.1).
enum QueueNumber : uint32_t { kSendQueue = 0, kReadRequestQueue = 1, kTerminateQueue = 2, kQueues = 3 };

// The first two octets of every segment: the control fields of DDP and RDMAP. T: tagged. L: last segment of its
// message. DV and RV: the versions of DDP and RDMAP.
//
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5
//   +-+-+-------+---+---+---+-------+
//   |T|L|   0   |DV |RV | 0 | opcode|
//   +-+-+-------+---+---+---+-------+
struct SegmentControl {
  static constexpr size_t kSize = 2;
  static constexpr uint8_t kDdpVersion = 1;
  static constexpr uint8_t kRdmapVersion = 1;  // version 0 of the RDMA Consortium is valid too (RFC 5040 §4.1)

  bool tagged = false;
  bool last = true;
  uint8_t ddp_version = kDdpVersion;
  uint8_t rdmap_version = kRdmapVersion;
  uint8_t opcode = 0;  // four bits; may be no valid Opcode

  static SegmentControl Parse(const std::byte* at);
  void Serialize(std::byte* at) const;
  bool operator==(const SegmentControl&) const = default;
};

// The header of a tagged segment (RDMA Write, Read Response).
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//                                   +-------------------------------+
//                                   |            control            |
//   +-------------------------------+-------------------------------+
//   |                             STag                              |
//   +---------------------------------------------------------------+
//   |                     tagged offset, 64 bits                    |
//   |                                                               |
//   +---------------------------------------------------------------+
struct TaggedHeader {
  static constexpr size_t kSize = 14;
  SegmentControl control{.tagged = true};
  Stag stag;
  uint64_t offset = 0;

  static TaggedHeader Parse(const std::byte* at);
  void Serialize(std::byte* at) const;
  bool operator==(const TaggedHeader&) const = default;
};

// The header of an untagged segment (Send, Read Request, Terminate).
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//                                   +-------------------------------+
//                                   |            control            |
//   +-------------------------------+-------------------------------+
//   |       STag to invalidate (Send with Invalidate), or zero      |
//   +---------------------------------------------------------------+
//   |                         queue number                          |
//   +---------------------------------------------------------------+
//   |                 message sequence number, from 1               |
//   +---------------------------------------------------------------+
//   |                         message offset                        |
//   +---------------------------------------------------------------+
struct UntaggedHeader {
  static constexpr size_t kSize = 18;
  SegmentControl control{.tagged = false};
  Stag invalidate;
  uint32_t queue = 0;
  Msn msn;
  uint32_t offset = 0;

  static UntaggedHeader Parse(const std::byte* at);
  void Serialize(std::byte* at) const;
  bool operator==(const UntaggedHeader&) const = default;
};

// The RDMAP header of an RDMA Read Request, after the DDP header (RFC 5040 §4.4).
//
//   +---------------------------------------------------------------+
//   |                          sink STag                            |
//   +---------------------------------------------------------------+
//   |                 sink tagged offset, 64 bits                   |
//   |                                                               |
//   +---------------------------------------------------------------+
//   |                       octets to be read                       |
//   +---------------------------------------------------------------+
//   |                         source STag                           |
//   +---------------------------------------------------------------+
//   |                source tagged offset, 64 bits                  |
//   |                                                               |
//   +---------------------------------------------------------------+
struct ReadRequestHeader {
  static constexpr size_t kSize = 28;
  Stag sink_stag;
  uint64_t sink_offset = 0;
  uint32_t size = 0;
  Stag source_stag;
  uint64_t source_offset = 0;

  static ReadRequestHeader Parse(const std::byte* at);
  void Serialize(std::byte* at) const;
  bool operator==(const ReadRequestHeader&) const = default;
};

// Returns the size of the DDP header that begins with this octet.
constexpr size_t DdpHeaderSize(std::byte first) {
  return (first & std::byte{0x80}) != std::byte{} ? TaggedHeader::kSize : UntaggedHeader::kSize;
}

}  // namespace penstock::rdma::iwarp
