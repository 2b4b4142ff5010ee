#include "rpc/tcp/record_socket.h"

#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/connect_tcp.h"
#include "base/log.h"
#include "base/ready.h"

namespace penstock::rpc::tcp {
namespace {

constexpr size_t kPiecesPerCall = 128;
constexpr size_t kCopyPiece = 128 << 10;
constexpr size_t kOctetsPerTurn = 512 << 10;  // see EndsTurn(); also the most that one call of the kernel sends

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

void Configure(asio::ip::tcp::socket& socket) {
  CloseOnExec(socket.native_handle());
  asio::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto set = [&](int option, int value) {
    ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value);
  };
  set(TCP_KEEPIDLE, 60);
  set(TCP_KEEPINTVL, 10);
  set(TCP_KEEPCNT, 6);
}

RecordSocket::RecordSocket(Loop& loop, asio::ip::tcp::socket socket, size_t max_record, Owner& owner)
    : loop_(loop), socket_(std::move(socket)), owner_(&owner), reader_(loop.buffers(), max_record), turn_(loop.Now()) {}

Task<std::optional<Slice>> RecordSocket::Receive() {
  while (!ended_) {
    if (auto record = TakeReceived()) co_return record;
    if (reader_.failed()) {
      if (log::debugging(log::ModuleHere()))
        log::debug("a TCP peer sent a record above the limit: its connection is closed");
      Close();
      break;
    }
    if (reader_.awaited() > 0) break;
    Flush();
    if (ended_) break;
    // A TLS session may hold octets that it has read ahead.
    const bool is_empty = drained_ && !tls_;
    if (!is_empty && TurnIsOver()) {
      co_await NextTurn(loop_);
      BeginTurn();
      if (ended_) break;
    }
    drained_ = false;
    const Io io = is_empty ? Io::kWouldBlock : ReceiveSome();
    if (io == Io::kWouldBlock) {
      receiving_ = true;
      co_await Ready(socket_, asio::ip::tcp::socket::wait_read);
      receiving_ = false;
      BeginTurn();
    } else if (io == Io::kEnd) {
      ended_ = true;
    }
  }
  co_return std::nullopt;
}

std::optional<Slice> RecordSocket::TakeReceived() {
  if (ended_) return std::nullopt;
  auto record = reader_.TakeRecord();
  if (record) {
    ++received_;
    batching_ = true;
  }
  return record;
}

RecordSocket::Io RecordSocket::ReceiveSome() {
  if (tls_) return ReceiveSealed();
  const Bytes want = reader_.Want();
  for (;;) {
    const ssize_t n = ::recv(socket_.native_handle(), want.data(), want.size(), MSG_DONTWAIT);
    if (n > 0) {
      CountReceived(static_cast<size_t>(n));
      drained_ = static_cast<size_t>(n) < want.size();
      return Io::kProgress;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && WouldBlock(errno)) return Io::kWouldBlock;
    if (n < 0) Close();
    return Io::kEnd;
  }
}

void RecordSocket::CountReceived(size_t octets) {
  reader_.Received(octets);
  turn_octets_ += octets;
}

bool RecordSocket::TurnIsOver() const { return turn_octets_ >= kOctetsPerTurn || turn_.IsOver(loop_.Now()); }

bool RecordSocket::EndsTurn(size_t memory) {
  turn_octets_ += memory;
  const bool is_over = TurnIsOver();
  if (is_over || early_flush_due_) Flush();
  return is_over;
}

void RecordSocket::BeginTurn() {
  turn_octets_ = 0;
  queued_in_turn_ = 0;
  turn_.Begin(loop_.Now());
}

uint64_t RecordSocket::Send(Message message) {
  assert(!closed_);
  const uint64_t number = writer_.Push(std::move(message));
  early_flush_due_ |= ++queued_in_turn_ == LoopTurn::kEarlyMessages;
  if (!batching_ && !flush_posted_ && !sending_) {
    flush_posted_ = true;
    loop_.Post([self = shared_from_this()] {
      self->flush_posted_ = false;
      self->BeginTurn();
      self->Flush();
    });
  }
  return number;
}

void RecordSocket::Flush() {
  batching_ = false;
  early_flush_due_ = false;
  if (closed_ || sending_ || queued_octets() == 0) return;
  const Io io = SendSome();
  switch (io) {
    case Io::kProgress:
      if (owner_) owner_->OnSent();
      return;
    case Io::kWouldBlock:
    case Io::kTurnIsOver:
      sending_ = true;
      Spawn(SendRest(shared_from_this(), io));
      return;
    case Io::kEnd:
      Close();
  }
}

Task<void> RecordSocket::SendRest(std::shared_ptr<RecordSocket> self, Io io) {
  const auto unfinished = [&] { return !self->closed_ && (io == Io::kWouldBlock || io == Io::kTurnIsOver); };
  while (unfinished()) {
    if (io == Io::kWouldBlock) {
      co_await Ready(self->socket_, asio::ip::tcp::socket::wait_write);
    } else {
      co_await NextTurn(self->loop_);
    }
    if (self->closed_) break;
    self->BeginTurn();
    io = self->SendSome();
    if (unfinished() && self->owner_) self->owner_->OnSent();
  }
  self->sending_ = false;
  if (self->closed_) co_return;
  if (io == Io::kEnd) {
    self->Close();
  } else if (self->owner_) {
    self->owner_->OnSent();
  }
}

void RecordSocket::CountSent(size_t octets) {
  writer_.Sent(octets);
  turn_octets_ += octets;
}

// Returns kProgress if all messages have been sent. Each turn sends something, even if it was over before.
RecordSocket::Io RecordSocket::SendSome() {
  if (tls_ && !tls_->kernel_sends()) return SendSealed();
  while (!writer_.empty()) {
    const auto file = writer_.NextFile();
    const Io io = file ? SendFile(*file) : SendMemory();
    if (io != Io::kProgress) return io;
    if (TurnIsOver() && !writer_.empty()) return Io::kTurnIsOver;
  }
  return Io::kProgress;
}

RecordSocket::Io RecordSocket::SendMemory() {
  std::array<iovec, kPiecesPerCall> pieces;
  const RecordWriter::Pieces gathered = writer_.Gather(pieces, kOctetsPerTurn);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = gathered.count;
  const int flags = MSG_DONTWAIT | MSG_NOSIGNAL | (gathered.more ? MSG_MORE : 0);
  for (;;) {
    const ssize_t n = ::sendmsg(socket_.native_handle(), &message, flags);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WouldBlock(errno) ? Io::kWouldBlock : Io::kEnd;
    CountSent(static_cast<size_t>(n));
    return static_cast<size_t>(n) == gathered.octets ? Io::kProgress : Io::kWouldBlock;
  }
}

RecordSocket::Io RecordSocket::SendFile(const RecordWriter::FileRange& range) {
  // sendfile has no MSG_MORE. The octets after the range therefore leave in a separate segment.
  auto offset = static_cast<off_t>(range.data->file_offset() + range.offset);
  const size_t length = std::min(range.length, kOctetsPerTurn);
  for (;;) {
    const ssize_t n = ::sendfile(socket_.native_handle(), range.data->file()->get(), &offset, length);
    if (n > 0) {
      CountSent(static_cast<size_t>(n));
      return Io::kProgress;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && WouldBlock(errno)) return Io::kWouldBlock;
    // Other errors than the peer's disconnect come from the file: it has become shorter, sendfile does not support it,
    // or it cannot be read. SendCopy() handles these cases.
    if (n == 0 || (errno != EPIPE && errno != ECONNRESET)) return SendCopy(range);
    return Io::kEnd;
  }
}

RecordSocket::Io RecordSocket::SendCopy(const RecordWriter::FileRange& range) {
  const size_t length = std::min(range.length, kCopyPiece);
  const BufferRef buffer = loop_.buffers().Allocate(length);
  if (!ReadFile(range, buffer->bytes().first(length))) return Io::kEnd;
  const bool more = range.more || length < range.length;
  for (;;) {
    const ssize_t n =
        ::send(socket_.native_handle(), buffer->data(), length, MSG_DONTWAIT | MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return WouldBlock(errno) ? Io::kWouldBlock : Io::kEnd;
    CountSent(static_cast<size_t>(n));
    return Io::kProgress;
  }
}

// Reads the beginning of `range`.
bool RecordSocket::ReadFile(const RecordWriter::FileRange& range, Bytes to) {
  const auto read = range.data->Sub(range.offset, to.size()).CopyTo(to);
  // The reply's status of success may have left already. The client repeats the call over another connection and gets
  // the error.
  if (!read) {
    log::warn("cannot read the rest of a reply from its file, so its connection is closed: {}", read.error().message());
  }
  return read.has_value();
}

void RecordSocket::StopReceiving() {
  ended_ = true;
  asio::error_code ignored;
  socket_.cancel(ignored);  // wakes Receive(), which ends, and SendRest(), which continues
}

void RecordSocket::Close() {
  if (closed_) return;
  closed_ = true;
  ended_ = true;
  writer_.Clear();
  if (tls_) tls_->Close();
  asio::error_code ignored;
  socket_.close(ignored);
  if (owner_) owner_->OnClosed();
}

bool RecordSocket::quiet() {
  if (closed_ || tls_ || !writer_.empty() || reader_.mid_record()) return false;
  std::byte next;
  const ssize_t n = ::recv(socket_.native_handle(), &next, sizeof next, MSG_DONTWAIT | MSG_PEEK);
  return n < 0 && WouldBlock(errno);
}

std::optional<ReleasedSocket> RecordSocket::Release() {
  if (closed_ || tls_ || !writer_.empty() || reader_.failed() || reader_.in_record()) return std::nullopt;
  closed_ = ended_ = true;
  const ConstBytes unparsed = reader_.unparsed();
  asio::error_code ignored;
  socket_.cancel(ignored);  // wakes Receive(), which ends
  return ReleasedSocket{std::move(socket_), {unparsed.begin(), unparsed.end()}};
}

SocketAddress RecordSocket::local() const {
  asio::error_code ignored;
  return socket_.local_endpoint(ignored);
}

int RecordSocket::StalledIntervals() {
  const bool mid_record = reader_.mid_record() || (tls_ && tls_->mid_record());
  const bool receive_stalled = receiving_ && mid_record && received_ == received_seen_;
  const bool send_stalled = sending_ && writer_.sent() == sent_seen_;
  received_seen_ = received_;
  sent_seen_ = writer_.sent();
  receive_stalled_ = receive_stalled ? receive_stalled_ + 1 : 0;
  send_stalled_ = send_stalled ? send_stalled_ + 1 : 0;
  handshake_stalled_ = handshaking_ ? handshake_stalled_ + 1 : 0;
  return std::max({receive_stalled_, send_stalled_, handshake_stalled_});
}

}  // namespace penstock::rpc::tcp
