// The client side of RPC over UDP, for calls to the small programs of other hosts: a port mapper, a lock manager, a
// status monitor.
#pragma once

#include <memory>
#include <system_error>

#include "base/address.h"
#include "base/local_port.h"
#include "base/loop.h"
#include "base/result.h"
#include "rpc/transport.h"

namespace penstock::rpc::udp {

struct ChannelOptions {
  // A call without a reply is sent again after this time, then after twice this time, and so on up to `longest_pause`.
  Duration first_pause = std::chrono::seconds(1);
  Duration longest_pause = std::chrono::seconds(8);
  // A call without a reply fails after this time.
  Duration call_limit = std::chrono::seconds(15);
  LocalPort local_port = LocalPort::kAny;
  IpAddress local_address{};  // unspecified for any: see LocalSide
  // A longer reply is dropped. A longer call fails with kTooLarge.
  size_t max_message = 16 << 10;
  // Further calls at the same time fail with kTooLarge.
  size_t max_calls = 64;
};

// A channel to one address. Only replies from that address with the XID of a call count. The server may execute a call
// more than once, because the channel sends it again. Any number of calls up to the limit may share the channel at a
// time. It belongs to its loop, and no call waits for anything but the loop. The loop must take one more turn after the
// channel has been closed.
class Channel final : public rpc::Channel {
 public:
  // `loop` must outlive the channel. Fails for lack of descriptors, or if no route leads to the server.
  static Result<std::unique_ptr<Channel>, std::error_code> Open(Loop& loop, const SocketAddress& server,
                                                                const ChannelOptions& options = {});
  // See Close().
  ~Channel() override;

  // Sends a call and returns its reply. Fails with kTimedOut after the limit, and with kDisconnected if the server's
  // host says that nothing listens at the port. `shape` is not used.
  Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) override;

  // Before this returns, all pending calls fail with kDisconnected. Later calls fail in the same way.
  void Close() override;

 private:
  class Socket;
  explicit Channel(std::shared_ptr<Socket> socket) : socket_(std::move(socket)) {}

  std::shared_ptr<Socket> socket_;
};

}  // namespace penstock::rpc::udp
