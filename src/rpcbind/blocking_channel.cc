#include "rpcbind/blocking_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/data.h"
#include "rpc/record_marking.h"

namespace penstock::rpcbind {

using rpc::CallError;

namespace {

// rpcbind's list has some tens of entries of about 100 octets.
constexpr size_t kMaxReply = 1 << 20;
constexpr size_t kMaxDatagram = 64 << 10;
// A datagram without a reply is sent again after this time.
constexpr Duration kPause = std::chrono::milliseconds(300);

using Clock = std::chrono::steady_clock;

CallError ErrorOf(int error) {
  switch (error) {
    case ECONNREFUSED:
    case ENOENT:
      return CallError::kRefused;
    case ETIMEDOUT:
      return CallError::kTimedOut;
    default:
      return CallError::kDisconnected;
  }
}

}  // namespace

// A connected socket that does not block, and the time at which the current call must have ended.
class BlockingChannel::Socket {
 public:
  static Result<std::unique_ptr<Socket>, CallError> Connect(const Destination& to, BufferPool& pool, TimePoint until) {
    sockaddr_storage storage{};
    socklen_t size = 0;
    if (to.kind == Destination::Kind::kLocalSocket) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      if (to.path.size() >= sizeof address.sun_path) return std::unexpected(CallError::kRefused);
      std::memcpy(address.sun_path, to.path.data(), to.path.size());
      std::memcpy(&storage, &address, size = sizeof address);
    } else {
      std::memcpy(&storage, to.address.data(), size = static_cast<socklen_t>(to.address.size()));
    }
    const int type = to.kind == Destination::Kind::kUdp ? SOCK_DGRAM : SOCK_STREAM;
    FileDescriptor fd(::socket(storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return std::unexpected(CallError::kDisconnected);
    auto socket = std::make_unique<Socket>(std::move(fd), pool, type == SOCK_DGRAM);
    if (::connect(socket->fd(), reinterpret_cast<const sockaddr*>(&storage), size) == 0) return socket;
    // A local socket with a full queue fails with EAGAIN, and poll() cannot tell when it has room.
    if (errno != EINPROGRESS) return std::unexpected(ErrorOf(errno == EAGAIN ? ETIMEDOUT : errno));
    if (!socket->Wait(POLLOUT, until)) return std::unexpected(CallError::kTimedOut);
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return std::unexpected(ErrorOf(error));
    return socket;
  }

  Socket(FileDescriptor fd, BufferPool& pool, bool is_datagram)
      : fd_(std::move(fd)), pool_(pool), is_datagram_(is_datagram), reader_(pool, kMaxReply) {}

  int fd() const { return fd_.get(); }
  bool is_datagram() const { return is_datagram_; }

  // The message has no file data, and for a datagram no payloads.
  Result<void, CallError> Send(const rpc::Message& message, TimePoint until) {
    if (is_datagram_) {
      iovec piece{const_cast<std::byte*>(message.stream.data()), message.stream.size()};  // NOLINT: iovec has no const
      PENSTOCK_CHECK(SendOnce(std::span(&piece, 1), until));
      return {};
    }
    rpc::RecordWriter writer;
    writer.Push(message);
    while (!writer.empty()) {
      std::array<iovec, 8> pieces{};
      const size_t count = writer.Gather(pieces).count;
      PENSTOCK_TRY(const size_t sent, SendOnce(std::span(pieces).first(count), until));
      writer.Sent(sent);
    }
    return {};
  }

  // Returns the next record of a stream.
  Result<Slice, CallError> ReceiveRecord(TimePoint until) {
    for (;;) {
      if (std::optional<Slice> record = reader_.TakeRecord()) return *std::move(record);
      if (reader_.failed()) return std::unexpected(CallError::kTooLarge);
      if (reader_.awaited() > 0) {
        reader_.Admit();
        continue;
      }
      const Result<size_t, CallError> received = Receive(reader_.Want(), until);
      if (!received) return std::unexpected(received.error());
      if (*received == 0) return std::unexpected(CallError::kDisconnected);
      reader_.Received(*received);
    }
  }
  Result<Slice, CallError> ReceiveDatagram(TimePoint until) {
    BufferRef room = pool_.Allocate(kMaxDatagram);
    PENSTOCK_TRY(const size_t size, Receive(room->bytes(), until));
    const ConstBytes octets = ConstBytes(room->bytes()).first(size);
    return Slice(std::move(room), octets);
  }

 private:
  Result<size_t, CallError> SendOnce(std::span<iovec> pieces, TimePoint until) {
    msghdr header{};
    header.msg_iov = pieces.data();
    header.msg_iovlen = pieces.size();
    for (;;) {
      const ssize_t sent = ::sendmsg(fd(), &header, MSG_NOSIGNAL);
      if (sent >= 0) return static_cast<size_t>(sent);
      if (errno == EAGAIN) {
        if (!Wait(POLLOUT, until)) return std::unexpected(CallError::kTimedOut);
      } else if (errno != EINTR) {
        return std::unexpected(ErrorOf(errno));
      }
    }
  }

  Result<size_t, CallError> Receive(Bytes room, TimePoint until) {
    for (;;) {
      const ssize_t size = ::recv(fd(), room.data(), room.size(), 0);
      if (size >= 0) return static_cast<size_t>(size);
      if (errno == EAGAIN) {
        if (!Wait(POLLIN, until)) return std::unexpected(CallError::kTimedOut);
      } else if (errno != EINTR) {
        return std::unexpected(ErrorOf(errno));
      }
    }
  }

  // Returns false if the time is over.
  bool Wait(short events, TimePoint until) {
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      if (left.count() <= 0) return false;
      pollfd ready{.fd = fd(), .events = events, .revents = 0};
      const int count = ::poll(&ready, 1, static_cast<int>(std::min<int64_t>(left.count(), 60'000)));
      if (count > 0) return true;
      if (count < 0 && errno != EINTR) return false;
    }
  }

  const FileDescriptor fd_;
  BufferPool& pool_;
  const bool is_datagram_;
  rpc::RecordReader reader_;
};

BlockingChannel::BlockingChannel(Destination to, BufferPool& pool, Duration limit)
    : to_(std::move(to)), pool_(pool), limit_(limit) {}

BlockingChannel::~BlockingChannel() = default;

Task<Result<rpc::Message, CallError>> BlockingChannel::Call(rpc::Message call, rpc::ReplyShape /*shape*/) {
  auto reply = CallOnce(call);
  if (!reply) socket_.reset();
  co_return reply;
}

Result<rpc::Message, CallError> BlockingChannel::CallOnce(const rpc::Message& call) {
  const TimePoint until = Clock::now() + limit_;
  if (!socket_) {
    PENSTOCK_TRY(socket_, Socket::Connect(to_, pool_, until));
  }
  PENSTOCK_CHECK(socket_->Send(call, until));
  if (!socket_->is_datagram()) {
    PENSTOCK_TRY(Slice record, socket_->ReceiveRecord(until));
    return rpc::Message::Whole(std::move(record));
  }
  for (;;) {
    const auto received = socket_->ReceiveDatagram(std::min(until, Clock::now() + kPause));
    if (!received && received.error() == CallError::kTimedOut && Clock::now() < until) {
      PENSTOCK_CHECK(socket_->Send(call, until));
      continue;
    }
    if (!received) return std::unexpected(received.error());
    // A late reply to an earlier call may arrive as well.
    const bool is_reply = received->size() >= 4 && Equal(received->bytes().first(4), call.stream.bytes().first(4));
    if (is_reply) return rpc::Message::Whole(*received);
  }
}

}  // namespace penstock::rpcbind
