// The provider interface: an Endpoint is one end of a reliable connection with the semantics of RDMA verbs. Everything
// above it (RPC-over-RDMA) is independent of the kind of network.
//
// Three providers implement the interface: sim (two endpoints in one process, deterministic, with faults), iwarp
// (software iWARP over an ordinary TCP socket) and verbs (RDMA adapters). A fourth one calls functions of the process
// that embeds the library (library/provider). One conformance suite, endpoint_suite.h, tests the rules of this header
// with each of them.
//
// A request is posted and completes later. Each posted request has exactly one completion. A request that the
// connection loses, or that is posted after the loss, completes with kFlushed. Completions go to a queue. The provider
// notifies the owner once that the queue has completions (on_completions), and the owner polls until the queue is
// empty.
//
// All calls come from one thread, the thread of the loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/buffer.h"
#include "base/data.h"
#include "base/result.h"
#include "base/strong.h"
#include "base/task.h"

namespace penstock::rdma {

using Address = SocketAddress;

// A steering tag (iWARP) or R_key (InfiniBand).
using Stag = Strong<struct StagTag, uint32_t>;

// A number of the owner that names a request in its completion. The provider does not interpret it.
using Context = uint64_t;

// Memory of one side that the other side may access, as it is advertised in a message.
struct RemoteSegment {
  Stag stag;
  uint32_t length = 0;
  uint64_t offset = 0;
  bool operator==(const RemoteSegment&) const = default;
};

enum class Access : uint8_t { kRemoteRead = 1, kRemoteWrite = 2 };

// Memory that the peer may access by RDMA Read or by RDMA Write, never by both, and on this connection only. A region
// is valid until this side or the peer (Send with Invalidate) invalidates it, or until the connection is lost.
class MemoryRegion {
 public:
  // Invalidates the region. If valid() is still true at this point, the peer may access the memory a little longer: to
  // be sure that the memory is fenced, first wait for the completion of PostInvalidate(). A region may be destroyed
  // after its endpoint.
  virtual ~MemoryRegion() = default;
  virtual Stag stag() const = 0;
  // The offset by which the peer names the first octet ("tagged offset", RFC 5040 §2). Only some adapters use the
  // address of the memory here.
  virtual uint64_t offset() const = 0;
  virtual size_t length() const = 0;
  // False after an invalidation or the loss of the connection: the peer can no longer access the memory.
  virtual bool valid() const = 0;

  // A part of the region as a segment to advertise. Requires at + size <= length().
  RemoteSegment Segment(size_t at, size_t size) const { return {stag(), static_cast<uint32_t>(size), offset() + at}; }
};

enum class Operation : uint8_t { kReceive, kSend, kWrite, kRead, kInvalidate, kDisconnected };

enum class Status : uint8_t {
  kSuccess,
  kFlushed,       // the connection was lost before the request was complete
  kRemoteAccess,  // the peer refused the access (stag, bounds, rights); the connection is lost
  kLocalError,    // the request was impossible (for example a receive that is too small); the connection is lost
};

// Why a connection ended.
enum class DisconnectReason : uint8_t {
  kNone,
  kLocal,           // Disconnect() of this side
  kPeerClosed,      // the peer's Disconnect()
  kPeerReset,       // lost without a message: the peer's endpoint was destroyed, or the network failed
  kPeerTerminated,  // the peer refused a request of this side, reported that and ended the connection
  kProtocolError,   // this side refused a request of the peer (an access, a Send without a receive) and ended it
  kFault,           // a failure on this side: an impossible request (kLocalError) or an error of the system
};

struct Completion {
  Operation operation = Operation::kReceive;
  Status status = Status::kSuccess;
  Context context = 0;
  // kReceive: the buffer whose first `length` octets are the received message. It may be shorter than the receive, and
  // a flushed receive may have none.
  BufferRef buffer;
  uint32_t length = 0;
  bool solicited = false;           // always false if the provider cannot report it
  std::optional<Stag> invalidated;  // region of this side that the peer's Send has invalidated
  // kDisconnected: the cause. This completion comes once, after the completions of all requests that were posted before
  // the loss. From then on all memory is fenced. `context` is 0. `detail` is one printable line of bounded length for
  // logs.
  DisconnectReason reason = DisconnectReason::kNone;
  std::string detail;
};

// The pieces of one message, in order. The memory must not change before the completion. An owned Slice keeps its
// buffer alive; for a borrowed Slice the caller must keep the memory. File ranges are allowed only if Limits::file_data
// is true.
using Gather = std::vector<Data, RecyclingAllocator<Data>>;

// The octets of all pieces.
inline size_t SizeOf(const Gather& gather) {
  size_t size = 0;
  for (const Data& data : gather) size += data.size();
  return size;
}

// A place for one Send of the peer, of at most `size` octets.
struct ReceiveRequest {
  Context context = 0;
  size_t size = 0;
};

struct SendRequest {
  Context context = 0;
  Gather gather;
  bool solicited = false;          // the receive at the peer reports this flag
  std::optional<Stag> invalidate;  // region of the peer that this Send invalidates
};

struct WriteRequest {
  Context context = 0;
  Gather gather;  // no longer than remote.length
  RemoteSegment remote;
};

struct ReadRequest {
  Context context = 0;
  // The destination. Its size is remote.length. Memory from the endpoint's BufferPool suits every provider; iwarp and
  // sim accept any memory. `owner` keeps it alive.
  Bytes local;
  BufferRef owner;
  RemoteSegment remote;
};

struct Limits {
  uint32_t max_message = 0;   // octets in one Send
  uint32_t max_transfer = 0;  // octets in one RDMA Read or Write
  bool file_data = false;     // Gather may hold file ranges
};

// The number of RDMA Reads that a side can serve at once (IRD), and that it may have outstanding at once (ORD).
struct ReadDepths {
  uint16_t ird = 0;
  uint16_t ord = 0;
  bool operator==(const ReadDepths&) const = default;
};

struct ConnectionInfo {
  std::string_view provider;
  Address local;
  Address peer;
  std::vector<std::byte> private_data;  // from the peer
  uint16_t ird = 0;                     // Reads of the peer that this side serves at once
  uint16_t ord = 0;                     // Reads of this side that may be outstanding at once; see PostRead
  // The depths that the peer has announced (RFC 6581 §9.1). Empty if the provider does not carry them.
  std::optional<ReadDepths> peer_depths;
};

class Endpoint {
 public:
  // Ends the connection at once. Completions that were not polled are lost. Not allowed from inside on_completions.
  virtual ~Endpoint() = default;

  virtual const ConnectionInfo& info() const = 0;
  virtual const Limits& limits() const = 0;
  virtual BufferPool& buffers() = 0;

  // Starts notifications. Requests may be posted before. Until Start(), providers in software do not receive messages
  // of the peer. An adapter does receive them, so that such a message needs a receive from ConnectOptions.
  // `on_completions` runs on the loop, at the latest in its next turn, when completions have become available. It never
  // runs from inside a call to this endpoint. It runs again only after a Poll() that has returned less than out.size().
  virtual void Start(std::function<void()> on_completions) = 0;

  // Posts a place for one Send of the peer. Each Send goes to the oldest posted receive. A Send without a posted
  // receive, or longer than its receive, ends the connection (as in iWARP, and in reliable connections without RNR
  // retry). The memory comes from buffers(): an adapter takes it at once, software only when the message arrives, and
  // no more than the message needs. An adapter rounds the size up to that of its buffer.
  virtual void PostReceive(ReceiveRequest request) = 0;

  // Requests reach the peer in the order in which they were posted. The octets of an RDMA Write are in place when a
  // later Send is received. A Write or Send completes when its memory is free for other use; the peer may not have it
  // yet. Sends and Writes complete in the order in which they were posted. Requests posted in one turn of the loop
  // leave together. A Gather longer than Limits allow completes with kLocalError.
  virtual void PostSend(SendRequest request) = 0;
  virtual void PostWrite(WriteRequest request) = 0;
  // Completes when the octets are in place. A later Send or Write may reach the peer, and complete, before the Read. A
  // Read beyond ORD waits until an earlier Read has completed; later requests may wait with it. With an ORD of 0 a Read
  // completes with kLocalError.
  virtual void PostRead(ReadRequest request) = 0;

  // Makes memory accessible to the peer from the moment when the peer receives a request that is posted after this
  // call. The caller owns the memory and keeps it in place until the region is fenced. The stag is unpredictable (RFC
  // 5042 §6.1.1), as far as the provider can choose it, and is not used again soon.
  virtual std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) = 0;

  // Invalidates a region of this side. The region must live until the completion. After the completion the memory is
  // fenced, with any status: a provider that cannot invalidate the region ends the connection first (RFC 8166 §4.5.4).
  // The request succeeds for a region that is already invalid, because the peer may have invalidated it.
  virtual void PostInvalidate(Context context, MemoryRegion& region) = 0;

  // Sends the posted requests, then closes the connection in order. This side gets kDisconnected with kLocal, the peer
  // with kPeerClosed. Reads that are not complete by then may be flushed. Requests that are posted later are flushed.
  virtual void Disconnect() = 0;

  // Moves up to out.size() completions to `out` and returns their number.
  virtual size_t Poll(std::span<Completion> out) = 0;
};

}  // namespace penstock::rdma
