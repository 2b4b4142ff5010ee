// The transport header of RPC-over-RDMA version 1: RFC 8166 §4.
//
//    0                   1                   2                   3
//   +-------------------------------+-------------------------------+
//   |  xid: that of the RPC message                                 |
//   |  version: 1                                                   |  the same in all versions
//   |  credits: asked for in a call, granted in a reply             |
//   |  procedure                                                    |
//   +---------------------------------------------------------------+
//   |  MSG, NOMSG: Read list    { 1, position, segment } ... 0      |  segment: handle, length, offset (64 bits)
//   |              Write list   { 1, count, segment ... } ... 0     |
//   |              Reply chunk  1, count, segment ...  or  0        |
//   |  MSG:        the Payload stream                               |
//   |  ERROR:      1, lowest version, highest version  or  2        |
//   +---------------------------------------------------------------+
//
// It is read by hand and not by the XDR machinery, because every kind of error has its own answer (§4.5), and because most
// messages have no chunks and must cost nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "rpc/transport.h"
#include "rpcrdma/chunks.h"

namespace penstock::rpcrdma {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kFixedSize = 16;
// A header without chunks; anything shorter, but for an error, is discarded (§4.5).
constexpr size_t kMinimalHeader = 28;
// The shortest error (ERR_CHUNK) is shorter than that.
constexpr size_t kMinimalError = 20;

enum class Procedure : uint32_t { kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4 };
enum class ErrorCode : uint32_t { kVersion = 1, kChunk = 2 };

// The four words that mean the same in all versions (§4.2).
struct FixedHeader {
  rpc::Xid xid;
  uint32_t version = kProtocolVersion;
  uint32_t credits = 0;
  Procedure procedure = Procedure::kMsg;  // may hold a value that is none of the names
  bool operator==(const FixedHeader&) const = default;

  // None where the message is too short for its XID to be trusted: discard it without an answer (§4.5).
  static std::optional<FixedHeader> Parse(ConstBytes message);
};

// What one message may contain; more is answered with ERR_CHUNK. The defaults are far above what RFC 8267 §6.4.2 makes
// every server accept.
struct HeaderLimits {
  size_t max_read_segments = 256;
  size_t max_write_chunks = 32;
  size_t max_write_segments = 512;  // in all Write chunks together
  size_t max_reply_segments = 256;
};

// Why a header cannot be understood.
enum class HeaderError : uint8_t {
  kVersion,     // answered with ERR_VERS; all others with ERR_CHUNK
  kProcedure,   // not one of the five
  kPadded,      // RDMA_MSGP, which is no longer used (§4.6.1)
  kTruncated,   // ends inside a field
  kMalformed,   // an optional-data word that is neither 0 nor 1, or an unknown error code
  kTooComplex,  // above HeaderLimits
  kWraps,       // a segment whose end lies before its beginning
  kNoPayload,   // RDMA_NOMSG without chunks, or RDMA_MSG without a Payload stream
  kTrailing,    // octets after a header that is the whole message
};
std::string_view ToString(HeaderError error);

struct Header {
  FixedHeader fixed;
  ChunkLists chunks;                    // RDMA_MSG, RDMA_NOMSG
  ErrorCode error = ErrorCode::kChunk;  // RDMA_ERROR
  uint32_t lowest_version = 0;          // RDMA_ERROR with kVersion
  uint32_t highest_version = 0;
  bool operator==(const Header&) const = default;

  // Reads what follows `fixed`, which was parsed from the same message, into `chunks` or the error fields, and gives the
  // size of the whole header; behind it begins the Payload stream. Keeps what memory the lists have.
  Result<size_t, HeaderError> Parse(const FixedHeader& fixed_header, ConstBytes message, const HeaderLimits& limits);

  size_t serialized_size() const;
  // Requires out.size() >= serialized_size(), which it returns.
  size_t Serialize(Bytes out) const;
};

// Octets of a header with such lists.
size_t HeaderSize(const ChunkLists& chunks);

// One line for logs.
std::string ToString(const Header& header);

}  // namespace penstock::rpcrdma
