// The provider interface: reliable connections with the semantics of RDMA verbs.
//
// Three providers implement it: sim (two endpoints in one process, deterministic, with faults), iwarp (in user space,
// over an ordinary TCP socket) and verbs (adapters). One conformance suite, endpoint_suite.h, runs over all of them and
// says in tests what this page says in words.
//
// Work is posted and completes later. Every posted request gives exactly one completion, even when the connection is
// lost (kFlushed) and even when it was posted after that. Completions are queued, never called back: the owner is told
// once that there are some (on_completions) and polls until there are none.
//
// Everything here belongs to one thread, the loop's.
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

// What the owner of a request makes of its completion; opaque here.
using Context = uint64_t;

// Memory of the peer, as the peer advertised it.
struct RemoteSegment {
  Stag stag;
  uint32_t length = 0;
  uint64_t offset = 0;
  bool operator==(const RemoteSegment&) const = default;
};

enum class Access : uint8_t { kRemoteRead = 1, kRemoteWrite = 2 };

// Memory that the peer may reach by RDMA Read or RDMA Write, never both, on this connection only. Lasts until it is
// invalidated, by us or by the peer's Send with Invalidate, or until the connection is lost.
class MemoryRegion {
 public:
  // May be destroyed after its endpoint.
  // Invalidates. The memory is fenced when the destructor returns only if valid() was false before: otherwise wait for
  // PostInvalidate's completion first.
  virtual ~MemoryRegion() = default;
  virtual Stag stag() const = 0;
  // The offset that the first octet has for the peer ("tagged offset", RFC 5040 §2); not an address of ours, but where an
  // adapter has it so.
  virtual uint64_t offset() const = 0;
  virtual size_t length() const = 0;
  // False once invalidated or the connection is lost: from then on nothing of the peer reaches the memory.
  virtual bool valid() const = 0;

  // Part of the region as a segment to advertise. Requires offset + length <= length().
  RemoteSegment Segment(size_t at, size_t size) const { return {stag(), static_cast<uint32_t>(size), offset() + at}; }
};

enum class Operation : uint8_t { kReceive, kSend, kWrite, kRead, kInvalidate, kDisconnected };

enum class Status : uint8_t {
  kSuccess,
  kFlushed,       // the connection was lost before the request was done
  kRemoteAccess,  // the peer refused the access (stag, bounds, rights); the connection is lost
  kLocalError,    // the request itself was impossible (a receive too small, for example); the connection is lost
};

// Why a connection ended.
enum class DisconnectReason : uint8_t {
  kNone,
  kLocal,           // our Disconnect()
  kPeerClosed,      // the peer's Disconnect()
  kPeerReset,       // it broke without a word: the peer's endpoint was destroyed, or the network failed
  kPeerTerminated,  // the peer refused something of ours, said so and ended it
  kProtocolError,   // we refused something of the peer's (an access, a Send without a receive) and ended it
  kFault,           // something failed here: a request of ours was impossible (kLocalError), the system let us down
};

struct Completion {
  Operation operation = Operation::kReceive;
  Status status = Status::kSuccess;
  Context context = 0;
  // kReceive: the posted buffer with what was received in its first `length` octets; also comes back when flushed.
  BufferRef buffer;
  uint32_t length = 0;
  bool solicited = false;           // where the provider can tell
  std::optional<Stag> invalidated;  // our region that the peer's Send has invalidated; already invalid
  // kDisconnected: why. Comes once, after the completions of everything that was posted before the loss: then all
  // memory is fenced. `context` is 0. `detail` is for logs: one line, printable, bounded.
  DisconnectReason reason = DisconnectReason::kNone;
  std::string detail;
};

// A buffer for one message of the peer, before the message has come.
struct PostedReceive {
  Context context = 0;
  BufferRef buffer;
};

// The pieces of one message, in order. Memory must stay as it is until the completion: an owned Slice keeps itself
// alive, a borrowed one is the poster's business. File ranges only where Limits::file_data.
using Gather = std::vector<Data>;

struct SendRequest {
  Context context = 0;
  Gather gather;
  bool solicited = false;          // ask for an event at the peer
  std::optional<Stag> invalidate;  // the peer's region that this Send invalidates there
};

struct WriteRequest {
  Context context = 0;
  Gather gather;  // no longer than remote.length
  RemoteSegment remote;
};

struct ReadRequest {
  Context context = 0;
  // Where the bytes go: memory from the endpoint's BufferPool, or any memory where the provider does not mind. Its size
  // is remote.length. `owner` keeps it alive.
  Bytes local;
  BufferRef owner;
  RemoteSegment remote;
};

struct Limits {
  uint32_t max_message = 0;   // octets in one Send
  uint32_t max_transfer = 0;  // octets in one RDMA Read or Write
  bool file_data = false;     // Gather may hold file ranges
};

// The RDMA Reads that a side can serve (IRD) and may have under way (ORD) at once.
struct ReadDepths {
  uint16_t ird = 0;
  uint16_t ord = 0;
  bool operator==(const ReadDepths&) const = default;
};

struct ConnectionInfo {
  std::string_view provider;
  Address local;
  Address peer;
  std::vector<std::byte> private_data;  // the peer's
  uint16_t ird = 0;                     // Reads of the peer that we serve at once
  uint16_t ord = 0;                     // Reads of ours that may be outstanding; see PostRead
  // What the peer has said of itself (RFC 6581 §9.1); nothing where the provider does not carry it.
  std::optional<ReadDepths> peer_depths;
};

class Endpoint {
 public:
  // Ends the connection at once. Completions that were not polled are lost. Not from inside on_completions.
  virtual ~Endpoint() = default;

  virtual const ConnectionInfo& info() const = 0;
  virtual const Limits& limits() const = 0;
  virtual BufferPool& buffers() = 0;

  // Nothing is told before this; posting is allowed before. Providers in software hold the peer back until then; an adapter
  // does not, so that a Send needs a receive that was posted with the connection.
  // `on_completions` is called on the loop, at the latest in its next turn, when completions have become available,
  // never from inside a call to this endpoint; not again before Poll() has returned less than it was asked for.
  virtual void Start(std::function<void()> on_completions) = 0;

  // The next Send of the peer goes to the oldest posted receive. One that finds none, or does not fit, ends the
  // connection (iWARP and reliable connections without RNR retry agree).
  virtual void PostReceive(Context context, BufferRef buffer) = 0;

  // Requests reach the peer in the order in which they were posted; an RDMA Write's bytes are in place when a later
  // Send is received. A Write or Send completes when its memory is free for other use, not when the peer has it; Sends
  // and Writes complete in the order in which they were posted. Requests posted in one turn of the loop leave together.
  // A Gather longer than Limits allow is kLocalError.
  virtual void PostSend(SendRequest request) = 0;
  virtual void PostWrite(WriteRequest request) = 0;
  // Completes when the bytes are in place. A later Send or Write may overtake it, there and in completing. A Read beyond
  // ORD waits until an earlier one has completed, and whatever is posted after it waits as well. With an ORD of 0 it is
  // kLocalError.
  virtual void PostRead(ReadRequest request) = 0;

  // Makes memory reachable for the peer: for what it does when it has received what is posted after this. The memory stays where it is, owned by the caller, until the
  // region is fenced. The stag is unpredictable (RFC 5042 §6.1.1), as far as it is ours to
  // choose, and is not given out again soon.
  virtual std::unique_ptr<MemoryRegion> Register(Bytes memory, Access access) = 0;

  // Invalidates our own region, which must live until the completion; after it, whatever its status, the memory is
  // fenced: where it cannot be invalidated the connection is ended first (RFC 8166 §4.5.4). One that is invalid already (the
  // peer may have been faster) succeeds.
  virtual void PostInvalidate(Context context, MemoryRegion& region) = 0;

  // Sends what is posted, then closes in order; the peer sees kPeerClosed. kDisconnected follows with kLocal. Reads
  // that are not complete by then may be flushed, and so is what is posted later.
  virtual void Disconnect() = 0;

  // Moves up to out.size() completions to `out`; returns how many.
  virtual size_t Poll(std::span<Completion> out) = 0;
};

}  // namespace penstock::rdma
