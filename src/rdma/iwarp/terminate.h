// The Terminate message, by which a side reports an error to its peer as the last message of a connection (RFC 5040
// §4.8).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "rdma/iwarp/ddp_header.h"

namespace penstock::rdma::iwarp {

struct TerminateCode {
  uint8_t layer = 0;  // four bits, like `type`
  uint8_t type = 0;
  uint8_t code = 0;

  bool operator==(const TerminateCode&) const = default;
  // For example "DDP tagged buffer: base or bounds violation".
  std::string ToString() const;
  // True if the sender of the Terminate refuses an access to its memory.
  bool is_remote_access() const { return (layer == 0 && type == 1) || (layer == 1 && type == 1); }
};

namespace terminate {

// RDMAP (RFC 5040 §4.8, figure 9). Type 1, protection, is for Read Requests and invalidation. Type 2, operation, is for
// all messages.
constexpr TerminateCode kLocalCatastrophic{0, 0, 0x00};
constexpr TerminateCode kSourceInvalidStag{0, 1, 0x00};
constexpr TerminateCode kSourceBounds{0, 1, 0x01};
constexpr TerminateCode kSourceAccess{0, 1, 0x02};
constexpr TerminateCode kSourceNotAssociated{0, 1, 0x03};
constexpr TerminateCode kSourceWrap{0, 1, 0x04};
constexpr TerminateCode kCannotInvalidate{0, 1, 0x09};
constexpr TerminateCode kRdmapVersion{0, 2, 0x05};
constexpr TerminateCode kUnexpectedOpcode{0, 2, 0x06};
constexpr TerminateCode kStreamCatastrophic{0, 2, 0x07};
constexpr TerminateCode kUnspecified{0, 2, 0xff};
// DDP (RFC 5041 §7.2). A Write to a region for reading is an invalid STag, because DDP has no code for access rights.
constexpr TerminateCode kInvalidStag{1, 1, 0x00};
constexpr TerminateCode kBounds{1, 1, 0x01};
constexpr TerminateCode kNotAssociated{1, 1, 0x02};
constexpr TerminateCode kWrap{1, 1, 0x03};
constexpr TerminateCode kTaggedVersion{1, 1, 0x04};
constexpr TerminateCode kInvalidQueue{1, 2, 0x01};
constexpr TerminateCode kNoBuffer{1, 2, 0x02};
constexpr TerminateCode kMsnRange{1, 2, 0x03};
constexpr TerminateCode kInvalidOffset{1, 2, 0x04};
constexpr TerminateCode kTooLong{1, 2, 0x05};
constexpr TerminateCode kUntaggedVersion{1, 2, 0x06};
// MPA (RFC 5044 §8, RFC 6581 §8).
constexpr TerminateCode kConnectionLost{2, 0, 0x01};
constexpr TerminateCode kCrc{2, 0, 0x02};
constexpr TerminateCode kMarker{2, 0, 0x03};
constexpr TerminateCode kMpaLocalCatastrophic{2, 0, 0x05};
constexpr TerminateCode kInsufficientIrd{2, 0, 0x06};
constexpr TerminateCode kNoMatchingRtr{2, 0, 0x07};

}  // namespace terminate

//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-------+-------+---------------+-+-+-+-------------------------+
//   | layer | type  |  error code   |M|D|R|            0            |
//   +-------+-------+---------------+-+-+-+-------------------------+
//   | segment length (if M or D)    |                               |
//   +-------------------------------+                               +
//   |  DDP header of the offending segment (if D), 14 or 18 octets  |
//   +---------------------------------------------------------------+
//   |      Read Request header of the offending request (if R)      |
//   +---------------------------------------------------------------+
struct TerminateMessage {
  static constexpr size_t kMaxSize = 4 + 2 + UntaggedHeader::kSize + ReadRequestHeader::kSize;

  TerminateCode code;
  std::optional<uint16_t> segment_length;  // octets of the offending ULPDU; present if the header is
  std::array<std::byte, UntaggedHeader::kSize> ddp_header{};
  uint8_t ddp_header_size = 0;  // 0: not present
  std::optional<ReadRequestHeader> read_request;

  bool operator==(const TerminateMessage&) const = default;

  // Returns nullopt if `bytes` is malformed.
  static std::optional<TerminateMessage> Parse(ConstBytes bytes);
  // Writes at most kMaxSize octets to `at` and returns their number.
  size_t Serialize(std::byte* at) const;
  std::string ToString() const;
};

// Makes a Terminate about a segment. The kind of error determines the headers in it (RFC 5040 §4.8, figure 10).
TerminateMessage MakeTerminate(TerminateCode code, ConstBytes ddp_header = {}, size_t segment_length = 0,
                               std::optional<ReadRequestHeader> read_request = {});

}  // namespace penstock::rdma::iwarp
