// What lies between ONC RPC and the wire: calls go out on a Channel, calls come in to a CallHandler. The TCP transport
// (rpc/tcp) and RPC-over-RDMA (rpcrdma) both stand behind these two.
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
#include "rpc/xid.h"
#include "xdr/message.h"

namespace penstock {
class BufferPool;
class Loop;
}  // namespace penstock

namespace penstock::rpc {

using Message = xdr::Message;

// ---- the calling side ----

// One DDP-eligible result that a reply may carry.
struct ResultSink {
  // No more octets than this are expected.
  size_t max_length = 0;
  // Where they should go, at least max_length long; owned by the caller, who leaves it alone until the call is over. Empty:
  // the transport finds memory. A transport that cannot place directly leaves it untouched: look at the payload's data().
  Bytes destination;
};

// The largest reply that a call can have (reply size estimation, RFC 8267 §3).
struct ReplyShape {
  // Octets of the reply's XDR stream, RPC header included, payload bytes excluded.
  size_t max_stream = 0;
  // The DDP-eligible results in the order in which they are decoded.
  std::vector<ResultSink> results;
};

enum class CallError : uint8_t {
  kDisconnected,  // the connection was lost; whether the call was executed is unknown
  kTimedOut,
  kCancelled,
  kTooLarge,    // the call or its reply does not fit what the transport or the peer can carry
  kRefused,     // the peer's transport did not understand the call (ERR_VERS, ERR_CHUNK)
  kMalformed,   // the reply cannot be decoded
  kUnreadable,  // a payload of the call is in a file that cannot be read
};

class Channel {
 public:
  virtual ~Channel() = default;

  // Sends `call`, whose stream begins with its XID, and gives the reply with the same XID. Borrowed memory in `call` and the
  // sinks' destinations are free for other use when this returns, whatever the result. The XID must not be in use.
  virtual Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) = 0;
};

// ---- the serving side ----

enum class TransportKind : uint8_t { kTcp, kRdma };

class BackChannel;
class CallOrder;
class MemoryAccount;

// Where a call came from.
struct Peer {
  TransportKind transport = TransportKind::kTcp;
  SocketAddress address;
  SocketAddress local;
  uint64_t connection = 0;  // unique in the process
  // Where replies find memory: the pool of the loop that the connection lives on.
  BufferPool* buffers = nullptr;
  // The loop that the connection lives on; none in a simulation.
  Loop* loop = nullptr;
  // For calls the other way. Null where this side has made the connection: there its Channel is for that.
  std::shared_ptr<BackChannel> back_channel;
  // The order of the connection's calls, while they are executed. Null where each is executed as soon as it is received.
  CallOrder* order = nullptr;
  // What counts the memory of the connection's calls and replies. Null where nobody does.
  MemoryAccount* memory = nullptr;
};

// A number for Peer::connection. Any thread.
inline uint64_t NewConnectionNumber() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

// Calls to the peer over a connection that the peer has made (RFC 8881 §2.10.3.1, RFC 8167), once the peer has said, by the
// means of the protocol above, that it takes any. May be held by whoever wants to call, also when the connection has gone:
// calls then end with kDisconnected. What has no reply within the time that the transport was set up with fails with kTimedOut.
//
// Call() belongs to the connection's loop; callers that live elsewhere go there:
//
//   co_await SwitchTo(*channel->loop());
//   rpc::Client client(*channel, credential);
//   auto reply = co_await client.Call<Procedure>(arguments);
//   co_await SwitchTo(home);
class BackChannel : public Channel {
 public:
  // None in a simulation, which has but one thread. Any thread.
  Loop* loop() const { return loop_; }
  // False once the connection is lost. Any thread.
  bool connected() const { return connected_.load(std::memory_order_acquire); }
  // Memory for calls.
  BufferPool& buffers() const { return buffers_; }
  // All calls over the connection, of whatever program, have their XIDs from here.
  XidSequence& xids() { return xids_; }

 protected:
  explicit BackChannel(const Peer& peer)
      : loop_(peer.loop), buffers_(*peer.buffers), xids_(Xid(static_cast<uint32_t>(peer.connection) << 16)) {}
  void set_disconnected() { connected_.store(false, std::memory_order_release); }

 private:
  Loop* const loop_;
  BufferPool& buffers_;
  XidSequence xids_;
  std::atomic<bool> connected_{true};
};

class CallHandler {
 public:
  virtual ~CallHandler() = default;

  // Executes one call and gives its reply. An empty message means that there is none: the transport then closes the connection,
  // so that the peer knows (RFC 8166 §4.5.4, RFC 8881 §2.9.2). Never fails: what is wrong with the call is said in the reply. `peer` outlives the call. Calls of one connection run side by side.
  virtual Task<Message> HandleCall(Message call, const Peer& peer) = 0;
};

}  // namespace penstock::rpc
