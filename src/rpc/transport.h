// The interface between ONC RPC and its transports: a Channel sends calls, a CallHandler executes received calls. Three
// transports implement it: TCP (rpc/tcp), RPC-over-RDMA (rpcrdma), and UDP (rpc/udp) for the small programs beside NFS.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/task.h"
#include "base/timer.h"
#include "rpc/peer_address.h"
#include "rpc/xid.h"
#include "xdr/message.h"

namespace penstock {
class BufferPool;
class Loop;
}  // namespace penstock

namespace penstock::metrics {
class ConnectionCounts;
}

namespace penstock::rpc {

using Message = xdr::Message;

// ---- the calling side ----

// One DDP-eligible result that a reply may carry.
struct ResultSink {
  // The maximum length of the result in octets.
  size_t max_length = 0;
  // The memory for the result, at least max_length long. The caller owns it and must not use it until the call ends. If
  // it is empty, the transport allocates memory. A transport that cannot place data directly ignores it, so use the
  // payload's data().
  Bytes destination;
};

// The largest possible reply to a call (reply size estimation, RFC 8267 §3).
struct ReplyShape {
  // Octets of the reply's XDR stream, with the RPC header and without payloads.
  size_t max_stream = 0;
  // The DDP-eligible results in the order in which they are decoded.
  std::vector<ResultSink> results;
};

enum class CallError : uint8_t {
  kDisconnected,  // the connection was lost; whether the call was executed is unknown
  kTimedOut,
  kCancelled,
  kTooLarge,      // the call or its reply is too large for the transport or the peer
  kRefused,       // the peer's transport did not understand the call (ERR_VERS, ERR_CHUNK)
  kMalformed,     // the reply cannot be decoded
  kUnreadable,    // a payload of the call is in a file that cannot be read
  kNoContext,     // there is no security context for the call: see gss::ClientContext::trouble()
  kNotAuthentic,  // the reply does not prove that the server has sent it
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Sends `call`, whose stream begins with its XID, and returns the reply with the same XID. The XID must not be in
  // use. When this returns, with any result, borrowed memory in `call` and the destinations of the sinks are free for
  // other use.
  virtual Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) = 0;

  // Closes the connection of the channel now. Calls under way fail soon with kDisconnected, perhaps before this
  // returns, and later ones at once. A channel without a connection of its own does nothing. The channel may be
  // running, and must not be destroyed in the same turn of the loop.
  virtual void Close() {}
};

// ---- the serving side ----

enum class TransportKind : uint8_t { kTcp, kRdma, kUdp };

// How TLS protects a connection (RFC 9289 §4.2).
enum class Protection : uint8_t {
  kNone,
  kTls,        // the server has authenticated itself, the client has not
  kMutualTls,  // both have
};

class BackChannel;
class CallOrder;
class ConnectionControl;
class MemoryAccount;
namespace tls {
struct Certificate;
}

// The sender of a call, and its connection.
struct Peer {
  TransportKind transport = TransportKind::kTcp;
  // An RDMA connection that began over TCP and has stepped up (rpc/step_up.h). Its port is that of the TCP connection.
  bool stepped_up = false;
  PeerAddress address;
  SocketAddress local;
  uint64_t connection = 0;  // unique in the process; 0 over UDP, which has none
  Protection protection = Protection::kNone;
  // The verified certificate of the peer: with kMutualTls on the server, and with any TLS on the client. Null
  // otherwise.
  std::shared_ptr<const tls::Certificate> certificate{};
  // The memory for replies: the pool of the connection's loop.
  BufferPool* buffers = nullptr;
  // The connection's loop; null in a simulation.
  Loop* loop = nullptr;
  // For calls in the reverse direction. Null if this side has made the connection and has a Channel.
  std::shared_ptr<BackChannel> back_channel;
  // The order of the connection's calls under execution. Null if each call is executed on arrival.
  CallOrder* order = nullptr;
  // The account for the memory of the connection's calls and replies. Null if it is not counted.
  MemoryAccount* memory = nullptr;
  // Changes the limits of the connection, and its transport. Null if the connection can change neither.
  ConnectionControl* control = nullptr;
  // What the connection and its calls are counted in. Null if nothing counts them.
  std::shared_ptr<metrics::ConnectionCounts> counts{};
};

// Returns a new number for Peer::connection. Thread-safe.
inline uint64_t NewConnectionNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Calls to the peer over a connection that the peer has made (RFC 8881 §2.10.3.1, RFC 8167). Use it only after the peer
// has agreed to receive calls, by the means of the protocol above. A caller may hold it after the connection is lost:
// calls then fail with kDisconnected. A call without a reply within the transport's time limit fails with kTimedOut.
//
// Call() belongs to the connection's loop. Callers on other loops switch to it:
//
//   co_await SwitchTo(*channel->loop());
//   rpc::Client client(*channel, credential);
//   auto reply = co_await client.Call<Procedure>(arguments);
//   co_await SwitchTo(home);
class BackChannel : public Channel {
 public:
  // Null in a simulation, which has only one thread. Thread-safe.
  Loop* loop() const { return loop_; }
  // False once the connection is lost. Thread-safe.
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  // The pool for the memory of calls.
  BufferPool& buffers() const { return buffers_; }
  // Assigns the XIDs of all calls over the connection, of any program.
  XidSequence& xids() { return xids_; }
  // Whether a program has bound the connection to a session, so that all later calls over it belong to that session.
  // The program sets it, on the connection's loop. A connection that steps up keeps it.
  bool bound() const { return bound_; }
  void set_bound(bool bound) { bound_ = bound; }
  // Whether the session of the connection was destroyed, so that the connection may belong to no other one. A
  // connection that steps up keeps it. Thread-safe.
  bool spent() const { return spent_.load(std::memory_order_acquire); }
  void set_spent() { spent_.store(true, std::memory_order_release); }
  // Closes the connection, soon after it has returned. `why` is for logs. Thread-safe.
  virtual void CloseConnection(std::string why) = 0;
  // Lowers the number of calls of the peer that may be without a reply at once, to `credits` but not below one
  // (draft-talpey-nfsv4-rdma-sess-01 §2.4). Over RDMA the credits come back one by one: each message of the peer takes
  // one with it, and the next replies grant one less. A peer that has not returned all of them after `limit` loses the
  // connection. Does nothing if the number is not lower. Belongs to the connection's loop.
  virtual void Withdraw(uint32_t /*credits*/, Duration /*limit*/) {}

 protected:
  explicit BackChannel(const Peer& peer)
      : loop_(peer.loop), buffers_(*peer.buffers), xids_(Xid(static_cast<uint32_t>(peer.connection) << 16)) {}
  void set_disconnected() { connected_.store(false, std::memory_order_release); }

 private:
  Loop* const loop_;
  BufferPool& buffers_;
  XidSequence xids_;
  std::atomic<bool> connected_{true};
  bool bound_ = false;
  std::atomic<bool> spent_{false};
};

class CallHandler {
 public:
  virtual ~CallHandler() = default;

  // Executes one call and returns its reply. This never fails: the reply reports the problems of the call. An empty
  // message means that there is no reply; the transport then closes the connection, so that the peer notices (RFC 8166
  // §4.5.4, RFC 8881 §2.9.2). `peer` must outlive the call. Calls of one connection run concurrently. Payloads of the
  // call may still be arriving, but not their first rpc::kChecksummedSpan octets. The memory of the call is in use
  // until they have arrived or are lost, even if the reply comes before.
  virtual Task<Message> HandleCall(Message call, const Peer& peer) = 0;

  // Shows a call whose payloads are still on their way, so that a program can judge it in the order of arrival (see
  // CallOrder). Each item has its length, but no contents yet. The call is listed in peer.order. HandleCall() follows
  // when the payloads have arrived, unless the connection is lost before.
  virtual void PreviewCall(const Message& /*call*/, const Peer& /*peer*/) {}
};

}  // namespace penstock::rpc
