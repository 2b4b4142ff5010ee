// The frames that start a connection: MPA Request and MPA Reply (RFC 5044 §7.1.1, with the enhancements of RFC 6581 §6
// and §9).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace penstock::rdma::iwarp {

// A set of readiness indications: zero-length messages by which an initiator shows that it is ready to receive (RFC
// 6581 §9.2).
struct RtrKinds {
  bool send = false;
  bool write = false;
  bool read = false;
  bool empty() const { return !send && !write && !read; }
  bool operator==(const RtrKinds&) const = default;
};

// RFC 6581 §9: the first four octets of the private data of a frame with flag S.
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-+-+---------------------------+-+-+---------------------------+
//   |A|B|            IRD            |C|D|            ORD            |
//   +-+-+---------------------------+-+-+---------------------------+
//
//   A: peer-to-peer; readiness by zero-length Send (B), Write (C), Read (D)
struct EnhancedData {
  static constexpr size_t kSize = 4;
  // As IRD or ORD: the upper layer negotiates the depth, MPA does not change it.
  static constexpr uint16_t kNoNegotiation = 0x3fff;

  bool peer_to_peer = false;
  RtrKinds rtr = {};
  uint16_t ird = 0;
  uint16_t ord = 0;

  bool operator==(const EnhancedData&) const = default;
};

enum class MpaFrameError : uint8_t { kWrongKey, kUnknownRevision, kPrivateDataTooLong, kEnhancedDataMissing };
std::string_view ToString(MpaFrameError error);

//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +---------------------------------------------------------------+
//   |                  key: "MPA ID Req Frame", or                  |
//   |                       "MPA ID Rep Frame"                      |
//   |                                                               |
//   |                                                               |
//   +-+-+-+-+-------+---------------+-------------------------------+
//   |M|C|R|S|   0   |   revision    |    length of private data     |
//   +-+-+-+-+-------+---------------+-------------------------------+
//   |                   private data, 0-512 octets                  |
//   +---------------------------------------------------------------+
struct MpaFrame {
  static constexpr size_t kHeaderSize = 20;
  static constexpr size_t kMaxPrivateData = 512;
  static constexpr uint8_t kMaxRevision = 2;
  enum class Kind : uint8_t { kRequest, kReply };

  Kind kind = Kind::kRequest;
  uint8_t revision = 1;
  bool markers = false;                  // M: the sender wants to receive markers
  bool crc = false;                      // C: the sender wants check values in both directions
  bool rejected = false;                 // R: in a reply
  std::optional<EnhancedData> enhanced;  // S
  std::vector<std::byte> private_data;   // the data of the upper layer, without the enhanced data

  bool operator==(const MpaFrame&) const = default;

  // Returns the number of octets of private data in the frame that begins with `header`. The size of `header` is
  // kHeaderSize.
  static Result<size_t, MpaFrameError> PrivateDataSize(ConstBytes header, Kind kind);
  // Parses a whole frame: the header and the private data, whose size is PrivateDataSize().
  static Result<MpaFrame, MpaFrameError> Parse(ConstBytes frame, Kind kind);

  // Requires that enhanced data and private data together fit kMaxPrivateData.
  std::vector<std::byte> Serialize() const;
  std::string ToString() const;
};

}  // namespace penstock::rdma::iwarp
