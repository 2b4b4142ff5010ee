// The TLS part of RecordSocket: the handshake of a server, and the octets that TLS seals in user space.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cerrno>

#include "base/log.h"
#include "base/ready.h"
#include "rpc/tcp/handshake_gate.h"
#include "rpc/tcp/record_socket.h"

namespace penstock::rpc::tcp {
namespace {

constexpr size_t kPiecesPerSeal = 32;
constexpr std::byte kHandshakeRecord{22};  // ContentType, RFC 8446 §5.1

}  // namespace

void RecordSocket::Secure(std::unique_ptr<tls::Session> session) {
  assert(!tls_ && session->established() && writer_.empty() && !reader_.mid_record());
  tls_ = std::move(session);
}

Task<Result<void, std::string>> RecordSocket::AcceptTls(std::unique_ptr<tls::Session> session, HandshakeGate& gate) {
  using TlsIo = tls::Session::Io;
  std::string why;  // empty if this side ends the connection
  handshaking_ = true;
  bool begun = false;
  while (!ended_) {
    TlsIo io = TlsIo::kWantRead;
    if (begun) {
      co_await gate.Turn();
      if (ended_) break;
      io = session->Handshake();
      if (io == TlsIo::kDone) {
        handshaking_ = false;
        Secure(std::move(session));
        co_return Result<void, std::string>();
      }
      if (io == TlsIo::kFailed) {
        why = session->failure();
        break;
      }
    }
    const auto wanted = io == TlsIo::kWantWrite ? asio::ip::tcp::socket::wait_write : asio::ip::tcp::socket::wait_read;
    co_await Ready(socket_, wanted);
    if (!ended_ && !begun) {
      std::byte first{};
      const ssize_t n = ::recv(socket_.native_handle(), &first, sizeof first, MSG_DONTWAIT | MSG_PEEK);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (n <= 0 || first != kHandshakeRecord) {
        why = "it does not begin the handshake that it has asked for";
        break;
      }
      begun = true;
    }
  }
  handshaking_ = false;
  if (!ended_) Close();
  co_return std::unexpected(std::move(why));
}

RecordSocket::Io RecordSocket::ReceiveSealed() {
  size_t received = 0;
  const auto io = tls_->Read(reader_.Want(), received);
  if (io == tls::Session::Io::kDone) {
    CountReceived(received);
    return Io::kProgress;
  }
  // The session may answer the peer's TLS messages.
  if (tls_->pending() > 0) Flush();
  switch (io) {
    case tls::Session::Io::kDone:
    case tls::Session::Io::kWantRead:
      return closed_ ? Io::kEnd : Io::kWouldBlock;
    case tls::Session::Io::kEnd:
      return Io::kEnd;
    case tls::Session::Io::kWantWrite:  // the peer asks for more answers than it reads
    case tls::Session::Io::kFailed:
      break;
  }
  if (!closed_) log::info("closed a connection with TLS: {}", tls_->failure());
  Close();
  return Io::kEnd;
}

// Seals queued octets into TLS records and sends them. Returns kProgress if all have been sent.
RecordSocket::Io RecordSocket::SendSealed() {
  const BufferRef scratch = writer_.empty() ? BufferRef() : loop_.buffers().Allocate(tls::Session::kPiece);
  for (;;) {
    while (!writer_.empty() && tls_->has_room()) {
      if (!SealSome(scratch->bytes().first(tls::Session::kPiece))) return Io::kEnd;
    }
    const auto io = tls_->Flush();
    if (io == tls::Session::Io::kWantWrite) return Io::kWouldBlock;
    if (io != tls::Session::Io::kDone) return Io::kEnd;
    if (writer_.empty()) return Io::kProgress;
    if (TurnIsOver()) return Io::kTurnIsOver;
  }
}

// Seals the next TLS record. `scratch` has room for its content.
bool RecordSocket::SealSome(Bytes scratch) {
  size_t filled = 0;
  while (filled < scratch.size() && !writer_.empty()) {
    const Bytes room = scratch.subspan(filled);
    if (const auto file = writer_.NextFile()) {
      const size_t length = std::min(file->length, room.size());
      if (!ReadFile(*file, room.first(length))) return false;
      filled += length;
      CountSent(length);
      continue;
    }
    std::array<iovec, kPiecesPerSeal> pieces;
    const size_t count = writer_.Gather(pieces).count;
    if (filled == 0 && pieces[0].iov_len >= scratch.size()) {
      // A long piece needs no copy.
      const bool sealed = tls_->Seal({static_cast<const std::byte*>(pieces[0].iov_base), scratch.size()});
      CountSent(scratch.size());
      return sealed;
    }
    size_t copied = 0;
    for (size_t i = 0; i < count && copied < room.size(); ++i) {
      const size_t length = std::min(pieces[i].iov_len, room.size() - copied);
      CopyBytes(room.subspan(copied), ConstBytes(static_cast<const std::byte*>(pieces[i].iov_base), length));
      copied += length;
    }
    filled += copied;
    CountSent(copied);
  }
  return tls_->Seal(scratch.first(filled));
}

}  // namespace penstock::rpc::tcp
