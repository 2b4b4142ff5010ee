// The client side of RPC over TCP: a channel that sends calls to a server over one connection.
#pragma once

#include <asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/local_port.h"
#include "base/loop.h"
#include "base/result.h"
#include "rpc/transport.h"

namespace penstock {
struct ReleasedSocket;
}

namespace penstock::rpc::tls {
struct Facts;
}

namespace penstock::rpc::tcp {

struct ClientSecurity;

struct ChannelOptions {
  // The largest record that the server may send. The default suffices for a reply with 1 MiB of payload.
  size_t max_record = 2 << 20;
  Duration connect_limit = std::chrono::seconds(10);
  // A call without a reply fails after this time (and up to an eighth more).
  Duration call_limit = std::chrono::seconds(60);
  LocalPort local_port = LocalPort::kAny;
  IpAddress local_address{};  // unspecified for any: see LocalSide
  // Ends the set-up of the connection early. Null: nothing does.
  Cancellation* cancellation = nullptr;
  // Executes the calls of the server. A server makes calls only after the protocol above has allowed that (RFC 8881
  // §2.10.3.1). The handler must outlive the channel and every call that it has received. Null: the channel drops these
  // calls.
  CallHandler* back_channel = nullptr;
  // The limit on calls of the server: those that are running, plus the replies that the server has not read. Above it,
  // the channel closes the connection.
  size_t max_back_calls = 64;
  // Called when the connection is closed by either side, but not by Release(). It must not destroy the channel. Empty:
  // nobody is told.
  std::function<void()> on_closed{};
};

// A channel over one connection. Any number of calls may share it at a time, and their replies may arrive in any order.
// The channel belongs to its loop. The loop must take one more turn after the channel has been closed.
class Channel final : public rpc::Channel {
 public:
  // `loop` must outlive the channel.
  static Task<Result<std::unique_ptr<Channel>, std::error_code>> Connect(Loop& loop, SocketAddress server,
                                                                         ChannelOptions options = {});
  // The same with TLS (RFC 9289). options.connect_limit is for the whole. With mutual authentication it also waits
  // until the server has accepted this client's certificate: a server refuses one only after the client's handshake.
  // See SecureClient() for the errors.
  static Task<SetupResult<std::unique_ptr<Channel>>> ConnectSecurely(Loop& loop, SocketAddress server,
                                                                     ChannelOptions options, ClientSecurity security);
  // Closes the connection. See Close().
  ~Channel() override;

  // Sends a call and returns its reply. Payloads of the reply are in its stream. The destinations in `shape` are not
  // used.
  Task<Result<Message, CallError>> Call(Message call, ReplyShape shape) override;

  bool connected() const;
  SocketAddress local() const;
  // Null without TLS.
  const tls::Facts* tls() const;
  // Closes the connection. Before this returns, all pending calls fail with kDisconnected. Later calls fail in the same
  // way.
  void Close() override;
  // Gives the socket away, for another protocol on the same connection: see RecordSocket::Release(). Also returns
  // nothing while a call is under way in either direction. Afterwards the channel is closed.
  std::optional<ReleasedSocket> Release();

 private:
  class OpenConnection;
  static Task<Result<asio::ip::tcp::socket, std::error_code>> Dial(Loop& loop, SocketAddress server,
                                                                   const ChannelOptions& options);
  static Task<SetupResult<void>> Confirm(Loop& loop, Channel& channel, const ClientSecurity& security, Duration time,
                                         Cancellation* cancellation);
  explicit Channel(std::shared_ptr<OpenConnection> connection) : connection_(std::move(connection)) {}

  std::shared_ptr<OpenConnection> connection_;
};

}  // namespace penstock::rpc::tcp
