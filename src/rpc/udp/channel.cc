#include "rpc/udp/channel.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <asio/ip/udp.hpp>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "base/ready.h"
#include "rpc/header.h"
#include "rpc/udp/datagrams.h"

namespace penstock::rpc::udp {

// The socket of a channel and its pending calls. Its coroutine keeps it alive after the channel has been destroyed.
class Channel::Socket : public std::enable_shared_from_this<Socket> {
 public:
  Socket(Loop& loop, ConnectedSocket socket, const ChannelOptions& options)
      : loop_(loop), options_(options), socket_(std::move(socket)), readiness_(loop.context()) {}

  Result<void, std::error_code> Start(bool v6) {
    const int duplicate = ::fcntl(socket_.fd(), F_DUPFD_CLOEXEC, 0);
    if (duplicate < 0) return std::unexpected(std::error_code(errno, std::generic_category()));
    asio::error_code error;
    readiness_.assign(v6 ? asio::ip::udp::v6() : asio::ip::udp::v4(), duplicate, error);
    if (error) {
      ::close(duplicate);
      return std::unexpected(std::error_code(error));
    }
    Spawn(Receive(shared_from_this()));
    return {};
  }

  Task<Result<Message, CallError>> Call(Message call) {
    const size_t size = call.flat_size();
    if (size < 4 || size > options_.max_message || pending_.size() >= options_.max_calls) {
      co_return std::unexpected(CallError::kTooLarge);
    }
    if (closed_) co_return std::unexpected(CallError::kDisconnected);
    const auto self = shared_from_this();
    const uint32_t xid = LoadBig<uint32_t>(call.stream.data());
    Pending pending{.pause = options_.first_pause, .last = loop_.Now() + options_.call_limit};
    pending.timer = loop_.MakeTimer([this, xid] { HandleTimeout(xid); });
    pending.call = &call;
    const bool is_new = pending_.emplace(xid, &pending).second;
    assert(is_new);
    (void)is_new;
    SendCall(pending);
    co_return co_await pending.reply;
  }

  void Close() {
    closed_ = true;
    asio::error_code ignored;
    readiness_.cancel(ignored);
    FailAll();
  }

 private:
  // A call that waits for its reply. It lives in the frame of Call().
  struct Pending {
    Duration pause{};
    TimePoint last{};
    std::unique_ptr<Timer> timer{};
    const Message* call = nullptr;
    OneShot<Result<Message, CallError>> reply{};
  };

  static Task<void> Receive(std::shared_ptr<Socket> self) {
    while (!self->closed_) {
      Ready readable(self->readiness_, asio::ip::udp::socket::wait_read);
      const asio::error_code error = co_await readable;
      if (error) break;
      while (!self->closed_ && self->TakeOne()) {
      }
    }
  }

  // Returns false if no more is to be received now.
  bool TakeOne() {
    BufferRef room = loop_.buffers().Allocate(options_.max_message);
    const Received received = socket_.Receive(room->bytes().first(options_.max_message));
    switch (received.kind) {
      case Received::Kind::kNone:
        return false;
      case Received::Kind::kFailed:
        // An ICMP message, most often. Only "port unreachable" says that a reply cannot come.
        if (received.error == ECONNREFUSED) FailAll();
        return received.error == ECONNREFUSED;
      case Received::Kind::kUnfit:
        return true;
      case Received::Kind::kDatagram:
        break;
    }
    const ConstBytes octets = ConstBytes(room->bytes()).first(received.size);
    if (DirectionOf(octets) == Direction::kReply) {
      Message reply = Message::Whole(Slice(std::move(room), octets));
      End(LoadBig<uint32_t>(octets.data()), std::move(reply));
    }
    return true;
  }

  void SendCall(Pending& pending) {
    // A datagram that cannot be sent now is sent again after the pause.
    socket_.Send(*pending.call);
    const Duration left = std::max<Duration>(pending.last - loop_.Now(), Duration::zero());
    pending.timer->ExpireAfter(std::min(pending.pause, left));
    pending.pause = std::min(pending.pause * 2, options_.longest_pause);
  }

  void HandleTimeout(uint32_t xid) {
    const auto found = pending_.find(xid);
    if (found == pending_.end()) return;
    if (loop_.Now() >= found->second->last) return End(xid, std::unexpected(CallError::kTimedOut));
    SendCall(*found->second);
  }

  // Ignores a late reply: no call has this XID any more.
  void End(uint32_t xid, Result<Message, CallError> result) {
    const auto found = pending_.find(xid);
    if (found == pending_.end()) return;
    Pending& pending = *found->second;
    pending_.erase(found);
    pending.timer->Cancel();
    pending.reply.Set(std::move(result));
  }

  void FailAll() {
    const auto self = shared_from_this();
    std::vector<uint32_t> xids;
    for (const auto& [xid, pending] : pending_) xids.push_back(xid);
    for (const uint32_t xid : xids) End(xid, std::unexpected(CallError::kDisconnected));
  }

  Loop& loop_;
  const ChannelOptions options_;
  const ConnectedSocket socket_;
  asio::ip::udp::socket readiness_;  // a duplicate of the socket, which tells when it is readable
  std::map<uint32_t, Pending*> pending_;
  bool closed_ = false;
};

Result<std::unique_ptr<Channel>, std::error_code> Channel::Open(Loop& loop, const SocketAddress& server,
                                                                const ChannelOptions& options) {
  PENSTOCK_TRY(ConnectedSocket connected,
               ConnectedSocket::Open(server, {.port = options.local_port, .address = options.local_address}));
  auto socket = std::make_shared<Socket>(loop, std::move(connected), options);
  PENSTOCK_CHECK(socket->Start(server.address().is_v6()));
  return std::unique_ptr<Channel>(new Channel(std::move(socket)));
}

Channel::~Channel() { Close(); }

Task<Result<Message, CallError>> Channel::Call(Message call, ReplyShape /*shape*/) {
  return socket_->Call(std::move(call));
}

void Channel::Close() { socket_->Close(); }

}  // namespace penstock::rpc::udp
