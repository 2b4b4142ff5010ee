// The transport header of RPC-over-RDMA version 1: RFC 8166 §4.
//
//    0                   1                   2                   3
//   +-------------------------------+-------------------------------+
//   |  xid: same as in the RPC message                              |
//   |  version: 1                                                   |  the same in all versions
//   |  credits: requested in a call, granted in a reply             |
//   |  procedure                                                    |
//   +---------------------------------------------------------------+
//   |  MSG, NOMSG: Read list    { 1, position, segment } ... 0      |  segment: handle, length, offset (64 bits)
//   |              Write list   { 1, count, segment ... } ... 0     |
//   |              Reply chunk  1, count, segment ...  or  0        |
//   |  MSG:        the Payload stream                               |
//   |  MSGP:       alignment, threshold, then as MSG                |
//   |  ERROR:      1, lowest version, highest version  or  2        |
//   +---------------------------------------------------------------+
//
// This parser is written by hand and does not use the XDR code generator, for two reasons. Each kind of error needs a
// reply of its own (§4.5). And most messages have no chunks, so that parsing them must not allocate memory.
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
constexpr size_t kSegmentSize = 16;  // of a segment in a chunk
// The size of a header without chunks. The receiver discards shorter messages other than errors (§4.5).
constexpr size_t kMinimalHeader = 28;
// The size of the shortest error, ERR_CHUNK.
constexpr size_t kMinimalError = 20;

enum class Procedure : uint32_t { kMsg = 0, kNomsg = 1, kMsgp = 2, kDone = 3, kError = 4 };
enum class ErrorCode : uint32_t { kVersion = 1, kChunk = 2 };

// The first four words of a header. They mean the same in all versions (§4.2).
struct FixedHeader {
  rpc::Xid xid;
  uint32_t version = kProtocolVersion;
  uint32_t credits = 0;
  Procedure procedure = Procedure::kMsg;  // may hold a value without a name
  bool operator==(const FixedHeader&) const = default;

  // Returns none if the message is too short for its XID to be trusted. Discard such a message without a reply (§4.5).
  static std::optional<FixedHeader> Parse(ConstBytes message);
};

// The limits on the chunks of one message. The reply to a call above a limit is ERR_CHUNK. The defaults are far above
// the numbers that every server must accept (RFC 8267 §6.4.2).
struct HeaderLimits {
  // The alignment of padded calls that the peers have agreed on. 0: RDMA_MSGP is refused (RFC 8166 §4.6.1).
  uint32_t padding = 0;
  size_t max_read_segments = 256;
  size_t max_write_chunks = 32;
  size_t max_write_segments = 512;  // in all Write chunks together
  size_t max_reply_segments = 256;
};

// The reason why a header is refused.
enum class HeaderError : uint8_t {
  kVersion,     // the reply is ERR_VERS; the reply to all other errors is ERR_CHUNK
  kProcedure,   // not one of the five procedures
  kPadded,      // RDMA_MSGP between peers that have not agreed on padding (§4.6.1)
  kPadding,     // RDMA_MSGP with another alignment, a threshold that is too small, or Read chunks (see padding.h)
  kTruncated,   // the message ends inside a field
  kMalformed,   // an optional-data word that is neither 0 nor 1, or an unknown error code
  kTooComplex,  // exceeds HeaderLimits
  kWraps,       // a segment that wraps around the end of the address space
  kNoPayload,   // RDMA_NOMSG without chunks, or RDMA_MSG or RDMA_MSGP without a Payload stream
  kTrailing,    // octets follow the header of an RDMA_NOMSG
};
std::string_view ToString(HeaderError error);

struct Header {
  FixedHeader fixed;
  ChunkLists chunks;                    // RDMA_MSG, RDMA_NOMSG, RDMA_MSGP
  uint32_t alignment = 0;               // RDMA_MSGP (RFC 5666 §4.2): payloads of at least `threshold` octets begin on
  uint32_t threshold = 0;               // multiples of `alignment`
  ErrorCode error = ErrorCode::kChunk;  // RDMA_ERROR
  uint32_t lowest_version = 0;          // RDMA_ERROR with kVersion
  uint32_t highest_version = 0;
  bool operator==(const Header&) const = default;

  // Parses the rest of the header into `chunks` or into the error fields. `fixed_header` was parsed from the same
  // message. Returns the size of the whole header, which is where the Payload stream begins. Reuses the memory of the
  // lists.
  Result<size_t, HeaderError> Parse(const FixedHeader& fixed_header, ConstBytes message, const HeaderLimits& limits);

  size_t serialized_size() const;
  // Writes the header to `out` and returns serialized_size(). Requires out.size() >= serialized_size().
  size_t Serialize(Bytes out) const;
};

// The size of a header with these lists, in octets.
size_t HeaderSize(const ChunkLists& chunks);
// The size of the header of a reply to a call with these lists. It has no Read list (RFC 8166 §4.3.1).
size_t ReplyHeaderSize(const ChunkLists& call);

// Prints the header as one line, for logs.
std::string ToString(const Header& header);

}  // namespace penstock::rpcrdma
