#include "rpc/tcp/channel.h"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <utility>

#include "base/connect_tcp.h"
#include "base/log.h"
#include "base/released_socket.h"
#include "base/wait_limit.h"
#include "rpc/client.h"
#include "rpc/header.h"
#include "rpc/tcp/record_socket.h"
#include "rpc/tcp/requester.h"
#include "rpc/tcp/secure_client.h"
#include "xdr/encode.h"

namespace penstock::rpc::tcp {
namespace {

using asio::ip::tcp;

// Converts an error of asio's own category, which cannot be compared with std::errc.
std::error_code Portable(const asio::error_code& error) {
  return error.category() == asio::error::get_system_category()
             ? std::error_code(error.value(), std::generic_category())
             : error;
}

}  // namespace

// The connection of a channel. Its coroutines keep it alive after the channel has been destroyed.
class Channel::OpenConnection final : public std::enable_shared_from_this<OpenConnection>, public RecordSocket::Owner {
 public:
  // `session` may be null.
  OpenConnection(Loop& loop, tcp::socket socket, const tcp::endpoint& server, const ChannelOptions& options,
                 std::unique_ptr<tls::Session> session)
      : options_(options),
        socket_(std::make_shared<RecordSocket>(loop, std::move(socket), options.max_record, *this)),
        peer_(PeerOf(loop, server, socket_->local(), session.get())),
        requester_(loop, *socket_, options.call_limit) {
    if (session) socket_->Secure(std::move(session));
  }
  ~OpenConnection() { socket_->Abandon(); }

  static Task<void> Run(Loop& loop, std::shared_ptr<OpenConnection> self) {
    for (;;) {
      auto record = self->socket_->TakeReceived();
      if (!record) record = co_await self->socket_->Receive();
      if (!record && self->socket_->awaited() > 0) {
        self->socket_->Admit();  // the client has asked for this reply, so that no limit applies
        continue;
      }
      if (!record) break;
      if (DirectionOf(record->bytes()) == Direction::kCall) {
        self->HandleCall(std::move(*record));
      } else {
        self->requester_.HandleReply(std::move(*record));
      }
      if (self->socket_->EndsTurn(0)) {
        co_await NextTurn(loop);
        self->socket_->BeginTurn();
      }
    }
    self->socket_->Close();
  }

  Task<Result<Message, CallError>> Call(Message call) { return requester_.Call(std::move(call)); }
  bool connected() const { return !socket_->closed(); }
  const tcp::endpoint& local() const { return peer_.local; }
  const tls::Session* tls() const { return socket_->tls(); }
  void Close() {
    auto self = shared_from_this();
    socket_->Close();
  }
  std::optional<ReleasedSocket> Release() {
    if (!requester_.idle() || back_calls_ > 0) return std::nullopt;
    return socket_->Release();
  }

 private:
  static Peer PeerOf(Loop& loop, const tcp::endpoint& server, const tcp::endpoint& local, const tls::Session* session) {
    Peer peer;
    if (session) {
      peer.protection = session->facts().mutual ? Protection::kMutualTls : Protection::kTls;
      peer.certificate = session->facts().peer;
    }
    peer.transport = TransportKind::kTcp;
    peer.address = server;
    peer.local = local;
    peer.connection = NewConnectionNumber();
    peer.buffers = &loop.buffers();
    peer.loop = &loop;
    return peer;
  }

  // Starts a call of the server.
  void HandleCall(Slice record) {
    if (!options_.back_channel) return;
    while (!answers_.empty() && socket_->IsSent(answers_.front())) answers_.pop_front();
    if (back_calls_ + answers_.size() >= options_.max_back_calls) {
      log::debug("a server has made too many calls to this client: its connection is closed");
      return socket_->Close();
    }
    ++back_calls_;
    Spawn(Answer(shared_from_this(), std::move(record)));
  }
  static Task<void> Answer(std::shared_ptr<OpenConnection> self, Slice record) {
    Message call;
    call.stream = std::move(record);
    Message reply = co_await self->options_.back_channel->HandleCall(std::move(call), self->peer_);
    --self->back_calls_;
    if (reply.empty()) self->socket_->Close();
    if (self->socket_->closed()) co_return;
    self->answers_.push_back(self->socket_->Send(std::move(reply)));
  }

  void OnSent() override { requester_.HandleSent(); }
  void OnClosed() override {
    requester_.HandleClosed();
    if (options_.on_closed) options_.on_closed();
  }

  const ChannelOptions options_;
  std::shared_ptr<RecordSocket> socket_;
  const Peer peer_;
  Requester requester_;
  size_t back_calls_ = 0;         // calls of the server that are running
  std::deque<uint64_t> answers_;  // the numbers of their replies in the socket, until these are sent
};

Task<Result<tcp::socket, std::error_code>> Channel::Dial(Loop& loop, tcp::endpoint server,
                                                         const ChannelOptions& options) {
  if (IsCancelled(options.cancellation)) co_return std::unexpected(std::make_error_code(std::errc::operation_canceled));
  tcp::socket socket(loop.context());
  const WaitLimit limit(loop, options.connect_limit, options.cancellation, [&socket] {
    asio::error_code ignored;
    socket.close(ignored);
  });
  asio::error_code error =
      co_await ConnectTcp(socket, server, {.port = options.local_port, .address = options.local_address});
  if (limit.timed_out()) co_return std::unexpected(std::make_error_code(std::errc::timed_out));
  if (limit.cancelled()) co_return std::unexpected(std::make_error_code(std::errc::operation_canceled));
  if (error) co_return std::unexpected(Portable(error));
  Configure(socket);
  co_return std::move(socket);
}

Task<Result<std::unique_ptr<Channel>, std::error_code>> Channel::Connect(Loop& loop, tcp::endpoint server,
                                                                         ChannelOptions options) {
  auto socket = co_await Dial(loop, server, options);
  if (!socket) co_return std::unexpected(socket.error());
  auto connection = std::make_shared<OpenConnection>(loop, *std::move(socket), server, options, nullptr);
  Spawn(OpenConnection::Run(loop, connection));
  co_return std::unique_ptr<Channel>(new Channel(std::move(connection)));
}

Task<SetupResult<std::unique_ptr<Channel>>> Channel::ConnectSecurely(Loop& loop, tcp::endpoint server,
                                                                     ChannelOptions options, ClientSecurity security) {
  const TimePoint start = loop.Now();
  const auto left = [&] { return std::max(Duration::zero(), options.connect_limit - (loop.Now() - start)); };
  auto socket = co_await Dial(loop, server, options);
  if (!socket) co_return std::unexpected(SetupError{socket.error().message(), socket.error().value()});
  const SecureLimits limits{.time = left(), .cancellation = options.cancellation};
  auto session = co_await SecureClient(loop, *socket, security, limits);
  if (!session) co_return std::unexpected(std::move(session).error());
  const bool confirm = *session && security.terms.mutual;
  auto connection = std::make_shared<OpenConnection>(loop, *std::move(socket), server, options, *std::move(session));
  Spawn(OpenConnection::Run(loop, connection));
  std::unique_ptr<Channel> channel(new Channel(std::move(connection)));
  if (confirm) {
    auto confirmed = co_await Confirm(loop, *channel, security, left(), options.cancellation);
    // The channel must outlive the turn of the loop in which it was lost.
    co_await NextTurn(loop);
    if (!confirmed) co_return std::unexpected(std::move(confirmed).error());
  }
  co_return std::move(channel);
}

// Waits for the reply to a NULL call within TLS.
Task<SetupResult<void>> Channel::Confirm(Loop& loop, Channel& channel, const ClientSecurity& security, Duration time,
                                         Cancellation* cancellation) {
  if (IsCancelled(cancellation)) co_return std::unexpected(SetupError{"cancelled", ECANCELED});
  xdr::Encoder encoder(loop.buffers());
  EncodeCallHeader(encoder, {RandomXid(), security.program, security.version, 0, {}, {}});
  Message call = encoder.Finish();
  ReplyShape shape;
  shape.max_stream = kMaxReplyHeader;
  const WaitLimit limit(loop, time, cancellation, [&channel] { channel.Close(); });
  const auto reply = co_await channel.Call(std::move(call), std::move(shape));
  SetupError why;
  if (limit.timed_out() || (!reply && reply.error() == CallError::kTimedOut)) {
    why = {"the server did not answer the first call within TLS in time", ETIMEDOUT};
  } else if (reply) {
    co_return SetupResult<void>();
  } else if (limit.cancelled()) {
    why = {"cancelled", ECANCELED};
  } else if (const tls::Session& session = *channel.connection_->tls(); session.refused_by_peer()) {
    why = {"the server did not accept this client's certificate: " + session.failure(), EACCES};
  } else {
    why = {
        "the connection was lost behind the TLS handshake, and the server gave no reason: it may not accept this "
        "client's certificate, or it may have stopped",
        ECONNRESET};
  }
  co_return std::unexpected(std::move(why));
}

Channel::~Channel() { Close(); }

Task<Result<Message, CallError>> Channel::Call(Message call, ReplyShape /*shape*/) {
  return connection_->Call(std::move(call));
}

bool Channel::connected() const { return connection_->connected(); }
tcp::endpoint Channel::local() const { return connection_->local(); }
const tls::Facts* Channel::tls() const {
  const tls::Session* session = connection_->tls();
  return session ? &session->facts() : nullptr;
}
void Channel::Close() { connection_->Close(); }
std::optional<ReleasedSocket> Channel::Release() { return connection_->Release(); }

}  // namespace penstock::rpc::tcp
