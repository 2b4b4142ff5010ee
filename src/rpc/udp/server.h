// An RPC server over UDP, for the small programs beside NFS: MOUNT, RQUOTA, the port mapper. NFS itself is not served
// over UDP, so the server needs a handler that offers the small programs only.
//
// A datagram proves nothing about its sender. So the server bounds what a flood of calls, or one forged sender, can
// cause: see ServerOptions. Its own memory is fixed: max_call octets for each call under way.
#pragma once

#include <asio/ip/udp.hpp>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/result.h"
#include "base/signal.h"
#include "metrics/counts.h"
#include "rpc/transport.h"
#include "rpc/udp/calls_under_way.h"
#include "rpc/udp/datagrams.h"
#include "rpc/udp/reply_allowance.h"

namespace penstock::rpc::udp {

struct ServerOptions {
  // A longer datagram is dropped. The longest call of the small programs (an NLM call with four objects of 1 KiB) and
  // its credentials fit.
  size_t max_call = 8 << 10;
  // A longer reply is replaced by SYSTEM_ERR, unless it is no longer than its call: the client then asks over TCP. The
  // default avoids fragments (the smallest MTU of IPv6 is 1280 octets).
  size_t max_reply = 1232;
  // Calls beyond the limits are dropped: their clients send them again.
  CallsUnderWay::Limits calls{};
  // Replies beyond the limits are not sent.
  ReplyAllowance::Limits replies{};
  // Counts the calls.
  metrics::Recorder recorder{};
};

// Serves one Listener on one loop, to which the server belongs. Each call is executed on arrival. Peer::connection is
// 0.
class Server {
 public:
  // `loop` and `handler` must outlive the server.
  Server(Loop& loop, CallHandler& handler, ServerOptions options = {});
  // Requires that Stop() has completed, or that Start() was never called.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Receives calls from now on.
  SetupResult<void> Start(Listener listener);
  // Accepts no more calls. Running calls end, and their replies leave. Does not complete before the handler has
  // finished its calls.
  Task<void> Stop();

  size_t calls() const { return calls_.size(); }

 private:
  Task<void> Receive();
  // Takes one datagram and starts its call.
  Received::Kind TakeOne();
  Task<void> Serve(Slice record, Route route);
  void Answer(Message reply, Xid xid, size_t call_octets, const Route& route);

  Loop& loop_;
  CallHandler& handler_;
  const ServerOptions options_;
  std::optional<Listener> listener_;
  asio::ip::udp::socket readiness_;  // a duplicate of the listener's socket, which tells when it is readable
  BufferRef room_;                   // for the next datagram
  CallsUnderWay calls_;
  ReplyAllowance allowance_;
  const std::shared_ptr<metrics::ConnectionCounts> counts_;  // of all calls; null if nothing counts them
  bool receiving_ = false;
  bool stopping_ = false;
  Signal changed_;
};

}  // namespace penstock::rpc::udp
