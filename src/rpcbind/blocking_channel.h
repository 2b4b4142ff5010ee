// A channel for a few calls from a thread that may block: during set-up, or on the pool. It reaches rpcbind at its
// local socket, and programs of this host to see whether they still run.
#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/buffer.h"
#include "base/timer.h"
#include "rpc/transport.h"

namespace penstock::rpcbind {

// Where a BlockingChannel connects to.
struct Destination {
  enum class Kind : uint8_t { kLocalSocket, kTcp, kUdp };
  Kind kind = Kind::kLocalSocket;
  std::string path{};       // of a kLocalSocket
  SocketAddress address{};  // otherwise
};

// Connects for the first call, and again after an error. A call with all of its waiting takes no longer than the limit.
// Belongs to one thread.
class BlockingChannel final : public rpc::Channel {
 public:
  // `pool` must outlive the channel and the replies.
  BlockingChannel(Destination to, BufferPool& pool, Duration limit);
  ~BlockingChannel() override;

  // Never suspends: the task has ended when it has begun. Fails with
  //   kRefused       if nobody listens there,
  //   kDisconnected  if the peer ends the connection, or cannot be reached for another reason,
  //   kTimedOut, kTooLarge, kMalformed.
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override;

 private:
  class Socket;
  Result<rpc::Message, rpc::CallError> CallOnce(const rpc::Message& call);

  const Destination to_;
  BufferPool& pool_;
  const Duration limit_;
  std::unique_ptr<Socket> socket_;  // null before the first call and after an error
};

}  // namespace penstock::rpcbind
