#include "rdma/iwarp/socket_driver.h"

#include "base/result.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

namespace penstock::rdma::iwarp {
namespace {

// The share of one connection in a turn.
constexpr int kReceivesPerTurn = 32;
constexpr size_t kOctetsSentPerTurn = 8 << 20;
// The maximum of unsent octets in the socket. TCP needs enough octets to continue until the next turn. With more
// octets, the processor's cache would lose them between the copy here, the copy in the kernel and the one of the
// adapter or local peer.
constexpr int kMaxUnsent = 768 << 10;
// So many octets leave before the end of the turn, and in each turn, however long it takes.
constexpr size_t kEarly = 64 << 10;
constexpr unsigned kMaxNudges = 3;
// The number of intervals in the stall limit.
constexpr int kIntervalsPerLimit = 4;
// The number of times that a peer that still receives octets gets more time to drain.
constexpr unsigned kMaxDrainExtensions = 4;

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

size_t OctetsOf(std::span<const iovec> memory) {
  size_t size = 0;
  for (const iovec& each : memory) size += each.iov_len;
  return size;
}

ssize_t SendPart(int socket, const FpduWriter::Part& part) {
  if (part.file) {
    off_t offset = static_cast<off_t>(part.file_offset);
    return ::sendfile(socket, part.file->get(), &offset, part.size);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(part.memory.data());
  message.msg_iovlen = part.memory.size();
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT | (part.more ? MSG_MORE : 0));
}

}  // namespace

SocketDriver::SocketDriver(Loop& loop, asio::ip::tcp::socket socket, const Options& options,
                           RdmapStream::Options stream, Entropy entropy, std::shared_ptr<StagingArea> staging)
    : loop_(loop),
      socket_(std::move(socket)),
      options_(options),
      stream_(stream, loop.buffers(), std::move(entropy)),
      staging_(std::move(staging)),
      turn_(loop.Now()) {
  // This is an optimization. If it fails, the size of the socket's buffer is the limit.
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMaxUnsent, sizeof kMaxUnsent);
}

void SocketDriver::Begin() {
  loop_timer_ = loop_.MakeTimer([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->HandleTimers();
  });
  if (stream_.unanswered()) SetTimer(SocketTimer::kNudge, options_.nudge_after);
  SetTimer(SocketTimer::kStall, options_.stall_limit / kIntervalsPerLimit);
  Touch();  // the stream may have a readiness indication to send
}

void SocketDriver::Start(std::function<void()> on_completions) {
  stream_.completions().Start(std::move(on_completions));
  Touch();
}

void SocketDriver::Touch(size_t octets) {
  if (in_turn_) {
    posted_ += octets;
    const bool is_early = posted_ >= kEarly || ++posts_ == LoopTurn::kEarlyMessages;
    if (is_early && !more_to_send_) Send();
    return;
  }
  if (turn_posted_) return;
  turn_posted_ = true;
  loop_.Post([self = shared_from_this()] {
    self->turn_posted_ = false;
    self->BeginTurn();
    self->EndTurn();
  });
}

void SocketDriver::BeginTurn() {
  in_turn_ = true;
  turn_.Begin(loop_.Now());
  posted_ = posts_ = sent_ = 0;
  more_to_send_ = false;
}

void SocketDriver::EndTurn() {
  stream_.completions().RunTurn([this] { Send(); });
  Settle();
  in_turn_ = false;
  if (more_to_send_ || stream_.completions().due()) Touch();
}

void SocketDriver::Receive(EndOfStream end_of_stream) {
  for (int i = 0; i < kReceivesPerTurn && !closed_; ++i) {
    const bool is_last = end_of_stream == EndOfStream::kIgnore;  // nothing is received after it
    if (!is_last && i > 0 && turn_.IsOver(loop_.Now())) return;
    const FpduReader::Places places = stream_.Wants(*staging_);
    iovec iov[2] = {{places.direct.data(), places.direct.size()}, {places.staging.data(), places.staging.size()}};
    msghdr message{};
    message.msg_iov = places.direct.empty() ? iov + 1 : iov;
    message.msg_iovlen = places.direct.empty() ? 1 : 2;
    const ssize_t n = ::recvmsg(socket_.native_handle(), &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      if (!WouldBlock(errno)) stream_.HandleBroken(DescribeErrno(errno));
      return;
    }
    if (n == 0) {
      if (end_of_stream == EndOfStream::kHandle) stream_.HandleEndOfStream();
      return;
    }
    stream_.HandleReceived(static_cast<size_t>(n), *staging_);
    if (stream_.lost() && stream_.ending() != RdmapStream::Ending::kShutdown) return;
    if (static_cast<size_t>(n) < places.direct.size() + places.staging.size()) return;
  }
}

void SocketDriver::Send() {
  posted_ = 0;
  while (!closed_ && !waiting_to_write_) {
    const FpduWriter::Part part = stream_.NextToSend();
    if (part.memory.empty() && !part.file) return;
    if (sent_ >= kOctetsSentPerTurn || (sent_ >= kEarly && turn_.IsOver(loop_.Now()))) {
      more_to_send_ = true;
      return;
    }
    const ssize_t n = SendPart(socket_.native_handle(), part);
    if (n > 0) {
      sent_ += static_cast<size_t>(n);
      stream_.HandleSent(static_cast<size_t>(n));
      // The socket is full. sendfile may stop for other reasons.
      if (!part.file && static_cast<size_t>(n) < OctetsOf(part.memory)) ArmWrite();
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && WouldBlock(errno)) {
      ArmWrite();
    } else if (part.file && (n == 0 || (errno != EPIPE && errno != ECONNRESET))) {
      ReplaceFile(part);
    } else {
      HandleSendError(errno);
      return;
    }
  }
}

void SocketDriver::ReplaceFile(const FpduWriter::Part& part) {
  BufferRef buffer = loop_.buffers().Allocate(part.size);
  if (const auto read = ReadRange(*part.file, part.file_offset, buffer->bytes().first(part.size)); !read) {
    return stream_.HandleFault("cannot read a file that is being sent: " + read.error().message());
  }
  stream_.ReplaceFile(std::move(buffer));
}

// The peer may have sent a Terminate before it closed, so that received octets are handled first.
void SocketDriver::HandleSendError(int error) {
  if (stream_.completions().started()) Receive(EndOfStream::kIgnore);
  if (!stream_.lost() || stream_.ending() == RdmapStream::Ending::kShutdown) {
    stream_.HandleBroken(DescribeErrno(error));
  }
}

void SocketDriver::Settle() {
  if (closed_) return;
  switch (stream_.ending()) {
    case RdmapStream::Ending::kNone:
      if (stream_.draining() && !timers_.is_set(SocketTimer::kDrain)) {
        sent_while_draining_ = stream_.sent();
        SetTimer(SocketTimer::kDrain, options_.close_timeout);
      }
      break;
    case RdmapStream::Ending::kShutdown: {
      timers_.Cancel(SocketTimer::kDrain);
      if (!timers_.is_set(SocketTimer::kClose)) SetTimer(SocketTimer::kClose, options_.close_timeout);
      const FpduWriter::Part part = stream_.NextToSend();
      if (!shut_ && part.memory.empty() && !part.file) {
        shut_ = true;
        asio::error_code ignored;
        socket_.shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
      }
      break;
    }
    case RdmapStream::Ending::kReset: {
      asio::error_code ignored;
      socket_.set_option(asio::socket_base::linger(true, 0), ignored);
      Close();
      return;
    }
    case RdmapStream::Ending::kClose:
      Close();
      return;
  }
  ArmRead();
}

void SocketDriver::ArmRead() {
  if (waiting_to_read_ || (!stream_.completions().started() && !stream_.lost())) return;
  waiting_to_read_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_read, [self = shared_from_this()](const asio::error_code& error) {
    self->waiting_to_read_ = false;
    if (self->closed_ || error == asio::error::operation_aborted) return;
    self->BeginTurn();
    self->Receive(EndOfStream::kHandle);
    self->EndTurn();
  });
}

void SocketDriver::ArmWrite() {
  waiting_to_write_ = true;
  socket_.async_wait(asio::ip::tcp::socket::wait_write, [self = shared_from_this()](const asio::error_code& error) {
    self->waiting_to_write_ = false;
    if (self->closed_ || error == asio::error::operation_aborted) return;
    self->BeginTurn();
    self->EndTurn();
  });
}

void SocketDriver::HandleNudge() {
  if (!stream_.unanswered()) return;
  BeginTurn();
  stream_.Nudge();
  EndTurn();
  if (++nudges_ < kMaxNudges) SetTimer(SocketTimer::kNudge, options_.nudge_after * (1 << 2 * nudges_));
}

void SocketDriver::HandleCloseTimeout() {
  const uint64_t sent_before = std::exchange(sent_while_draining_, stream_.sent());
  if (stream_.draining() && stream_.sent() != sent_before && drain_extensions_++ < kMaxDrainExtensions) {
    return SetTimer(SocketTimer::kDrain, options_.close_timeout);
  }
  BeginTurn();
  stream_.HandleCloseTimeout();
  EndTurn();
}

void SocketDriver::HandleStallTimer() {
  if (stream_.StalledIntervals() < kIntervalsPerLimit) {
    return SetTimer(SocketTimer::kStall, options_.stall_limit / kIntervalsPerLimit);
  }
  BeginTurn();
  stream_.HandleStall();
  EndTurn();
}

void SocketDriver::SetTimer(SocketTimer timer, Duration delay) {
  timers_.Set(timer, loop_.Now() + delay);
  ArmLoopTimer();
}

void SocketDriver::ArmLoopTimer() {
  if (const auto deadline = timers_.next_timeout()) loop_timer_->ExpireAfter(*deadline - loop_.Now());
}

void SocketDriver::HandleTimers() {
  // Close() cancels all timers, so that no handler runs after it.
  while (const auto expired = timers_.TakeExpired(loop_.Now())) {
    switch (*expired) {
      case SocketTimer::kNudge:
        HandleNudge();
        break;
      case SocketTimer::kDrain:
      case SocketTimer::kClose:
        HandleCloseTimeout();
        break;
      case SocketTimer::kStall:
        HandleStallTimer();
        break;
    }
  }
  ArmLoopTimer();
}

void SocketDriver::Close() {
  closed_ = true;
  timers_.CancelAll();
  loop_timer_->Cancel();
  asio::error_code ignored;
  socket_.close(ignored);
}

void SocketDriver::Abandon() {
  stream_.Abandon();
  if (!in_turn_) Settle();
}

}  // namespace penstock::rdma::iwarp
