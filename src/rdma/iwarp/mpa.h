// Numbers of MPA framing (RFC 5044 §4).
//
//    0                   1                   2                   3
//    0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//   +-------------------------------+-------------------------------+
//   |         ULPDU length          |                               |
//   +-------------------------------+                               +
//   |                   ULPDU: a DDP segment                        |
//   +                               +-------------------------------+
//   |                               |   pad, 0-3 octets of zero     |
//   +-------------------------------+-------------------------------+
//   |                            CRC32c                             |
//   +---------------------------------------------------------------+
//
// With markers, four octets more stand at every 512th octet of the stream, the first before the first FPDU: sixteen bits
// of zero, and how far back the FPDU's length field is (zero where the marker stands just before an FPDU).
#pragma once

#include <cstddef>

namespace penstock::rdma::iwarp {

constexpr size_t kLengthSize = 2;
constexpr size_t kCrcSize = 4;
constexpr size_t kMaxUlpdu = 65535;
constexpr size_t kMarkerInterval = 512;
constexpr size_t kMarkerSize = 4;

constexpr size_t PadSize(size_t ulpdu) { return (4 - (kLengthSize + ulpdu) % 4) % 4; }

// How a half connection is framed, as both sides have agreed.
struct Framing {
  bool crc = true;
  bool markers = false;
};

}  // namespace penstock::rdma::iwarp
