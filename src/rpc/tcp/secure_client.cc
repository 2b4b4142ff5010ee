#include "rpc/tcp/secure_client.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/ready.h"
#include "base/wait_limit.h"
#include "rpc/client.h"
#include "rpc/record_marking.h"
#include "rpc/starttls.h"

namespace penstock::rpc::tcp {
namespace {

using asio::ip::tcp;
using Secured = SetupResult<std::unique_ptr<tls::Session>>;

// The longest reply to a probe has a verifier of 400 octets.
constexpr size_t kLongestAnswer = 1024;

std::unexpected<SetupError> Fail(int number, std::string why) {
  return std::unexpected(SetupError{std::move(why), number});
}

// Sends the record with `call`. It is short, so that an unused socket takes it at once.
bool SendRecord(tcp::socket& socket, Message call) {
  std::array<iovec, 2> pieces;
  RecordWriter writer;
  writer.Push(std::move(call));
  const RecordWriter::Pieces gathered = writer.Gather(pieces);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = gathered.count;
  const ssize_t sent = ::sendmsg(socket.native_handle(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 && static_cast<size_t>(sent) == gathered.octets;
}

// Receives one record. Fails if octets follow it: they would be a part of no protocol (RFC 9289 §5.1.1).
Task<SetupResult<Slice>> ReceiveAnswer(Loop& loop, tcp::socket& socket) {
  RecordReader reader(loop.buffers(), kLongestAnswer);
  for (;;) {
    auto record = reader.TakeRecord();
    if (record && reader.mid_record())
      co_return Fail(EPROTO, "the server sends plain text behind its answer to the TLS probe");
    if (record) co_return *std::move(record);
    if (reader.failed()) co_return Fail(EPROTO, "the server's answer to the TLS probe is no RPC reply");
    const Bytes want = reader.Want();
    const ssize_t n = ::recv(socket.native_handle(), want.data(), want.size(), MSG_DONTWAIT);
    if (n > 0) {
      reader.Received(static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    const bool waits = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (!waits) {
      co_return Fail(ECONNRESET,
                     "the server closed the connection instead of answering the TLS probe; it may have no TLS");
    }
    const asio::error_code error = co_await Ready(socket, tcp::socket::wait_read);
    if (error) co_return Fail(ECONNABORTED, "closed");
  }
}

Task<Secured> Probe(Loop& loop, tcp::socket& socket, const ClientSecurity& security) {
  const Xid xid = RandomXid();
  Message probe = MakeTlsProbe(loop.buffers(), xid, security.program, security.version);
  if (!SendRecord(socket, std::move(probe))) co_return Fail(ECONNRESET, "the connection was lost before the TLS probe");
  auto answer = co_await ReceiveAnswer(loop, socket);
  if (!answer) co_return std::unexpected(std::move(answer).error());
  switch (ParseTlsAnswer(answer->bytes(), xid)) {
    case TlsAnswer::kStartTls:
      if (security.on_starttls) security.on_starttls();
      co_return tls::Session::ForClient(security.context, socket.native_handle(), loop.buffers(), security.terms);
    case TlsAnswer::kNoTls:
      if (!security.required) co_return nullptr;
      co_return Fail(
          EACCES,
          "the server has no TLS at this port, or somebody in between pretends so: give it a certificate (penstock "
          "serve --tls-cert), or use xprtsec=none on a network that you trust");
    case TlsAnswer::kMalformed:
      break;
  }
  co_return Fail(EPROTO, "the server's answer to the TLS probe is malformed");
}

Task<Secured> Handshake(tcp::socket& socket, std::unique_ptr<tls::Session> session) {
  using Io = tls::Session::Io;
  for (;;) {
    const Io io = session->Handshake();
    if (io == Io::kDone) break;
    if (io == Io::kFailed) co_return Fail(EACCES, fmt::format("TLS handshake: {}", session->failure()));
    const auto what = io == Io::kWantWrite ? tcp::socket::wait_write : tcp::socket::wait_read;
    const asio::error_code error = co_await Ready(socket, what);
    if (error) co_return Fail(ECONNABORTED, "closed");
  }
  co_return std::move(session);
}

}  // namespace

Task<Secured> SecureClient(Loop& loop, tcp::socket& socket, ClientSecurity security, SecureLimits limits) {
  const char* step = "answer to the TLS probe";
  const WaitLimit limit(loop, limits.time, limits.cancellation, [&socket] {
    asio::error_code ignored;
    socket.close(ignored);
  });
  Secured outcome = co_await Probe(loop, socket, security);
  if (outcome && *outcome) {
    step = "TLS handshake";
    std::unique_ptr<tls::Session> session = *std::move(outcome);
    outcome = co_await Handshake(socket, std::move(session));
  }
  if (limit.timed_out()) co_return Fail(ETIMEDOUT, fmt::format("the server did not complete the {} in time", step));
  if (limit.cancelled()) co_return Fail(ECANCELED, "cancelled");
  co_return outcome;
}

}  // namespace penstock::rpc::tcp
