// The calling side of RPC over TCP.
#pragma once

#include <memory>
#include <system_error>

#include "base/address.h"
#include "base/local_port.h"
#include "base/loop.h"
#include "base/result.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {

struct ChannelOptions {
  // The largest reply: 1 MiB of payload, and what surrounds it.
  size_t max_record = 2 << 20;
  Duration connect_limit = std::chrono::seconds(10);
  // A call without a reply for so long fails (an eighth later at the latest).
  Duration call_limit = std::chrono::seconds(60);
  LocalPort local_port = LocalPort::kAny;
  // Executes the server's calls, once it has been told by the protocol above that it may make any (RFC 8881 §2.10.3.1); outlives
  // the channel, and every call that it was given. Null: they are dropped.
  CallHandler* back_channel = nullptr;
  // A server that has more of them unanswered, or does not take our answers, is let go.
  size_t max_back_calls = 64;
};

// One connection. Calls share it, as many at a time as one likes, and are answered in any order. Belongs to its loop, which
// must take a last turn after the channel has been closed.
class Channel final : public rpc::Channel {
 public:
  // `loop` outlives the channel.
  static Task<Result<std::unique_ptr<Channel>, std::error_code>> Connect(Loop& loop, SocketAddress server,
                                                                         ChannelOptions options = {});
  // Closes.
  ~Channel() override;

  // Payloads of the reply are in its stream; the sinks' destinations are left alone.
  Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) override;

  bool connected() const;
  SocketAddress local() const;
  // Every call that waits fails with kDisconnected, before this returns. So do later ones.
  void Close();

 private:
  class OpenConnection;
  explicit Channel(std::shared_ptr<OpenConnection> connection) : connection_(std::move(connection)) {}

  std::shared_ptr<OpenConnection> connection_;
};

}  // namespace penstock::rpc::tcp
