// Constants of MPA framing (RFC 5044 §4). An FPDU has this layout:
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
// With markers, the stream has four more octets at every 512th octet; the first marker precedes the first FPDU. A
// marker is sixteen bits of zero and a pointer of sixteen bits: the distance back to the length field of the FPDU. The
// pointer is zero if the marker precedes an FPDU.
#pragma once

#include <cstddef>

namespace penstock::rdma::iwarp {

constexpr size_t kLengthSize = 2;
constexpr size_t kCrcSize = 4;
constexpr size_t kMaxUlpdu = 65535;
constexpr size_t kMarkerInterval = 512;
constexpr size_t kMarkerSize = 4;

constexpr size_t PadSize(size_t ulpdu) { return (4 - (kLengthSize + ulpdu) % 4) % 4; }

// The framing of one direction of a connection, as both sides have agreed.
struct Framing {
  bool crc = true;
  bool markers = false;
};

}  // namespace penstock::rdma::iwarp
