// The beginning of TLS on a connection of a server (RFC 9289 §4.1, §5.1.1).
#include <optional>
#include <utility>

#include "base/log.h"
#include "rpc/starttls.h"
#include "rpc/tcp/served_back_channel.h"
#include "rpc/tcp/served_connection.h"
#include "rpc/tls/context.h"
#include "rpc/tls/session.h"

namespace penstock::rpc::tcp {

// A probe within TLS goes to the dispatcher, which denies it (RFC 9289 §4.1). So does every probe if the server has no
// certificate.
bool ServedConnection::IsTlsBegin(const Slice& record) const {
  return options_.tls && !socket_->tls() && IsTlsProbe(record.bytes());
}

Task<bool> ServedConnection::BeginTls(Slice probe) {
  const std::string client = peer_.address.address().to_string();
  const auto refuse = [&](std::string_view why) {
    log::info("closed a connection of {}, which asks for TLS: {}", client, why);
    SetEnd(metrics::ConnectionEnd::kTls);
    socket_->Close();
    return false;
  };
  // RFC 9289 §5.1.1: octets between the probe and the handshake get no answer, and end the connection. Calls that are
  // under way could be answered in the middle of the handshake.
  const auto alone = [this] { return calls_ == 0 && !requester_ && socket_->quiet(); };
  if (!alone()) co_return refuse("other messages are under way");
  Message call = WithoutTlsFlavor(loop_.buffers(), probe.bytes());
  probe = {};
  Message plain = co_await handler_.HandleCall(std::move(call), peer_);
  std::optional<Message> answer = WithStartTls(loop_.buffers(), plain);
  if (!answer) co_return refuse("the NULL call has no answer");
  if (!accepting()) co_return refuse("the server stops");
  if (!alone()) co_return refuse("other messages are under way");
  // No call of the program may leave in plain text from now on.
  back_channel_->HandleLost();
  socket_->Send(*std::move(answer));
  socket_->Flush();
  while (!socket_->closed() && socket_->queued_octets() > 0) co_await changed_;
  if (socket_->closed() || !accepting()) co_return false;
  // The connection stays idle for the table of connections, which may close it for another one.
  auto session = tls::Session::ForServer(options_.tls->current(), socket_->fd(), loop_.buffers());
  const auto secured = co_await socket_->AcceptTls(std::move(session), handshakes_);
  if (metrics::LoopCounts* const counts = options_.recorder.loop()) {
    (secured ? counts->tls_handshakes : counts->failed_tls_handshakes).Add();
  }
  if (!secured) {
    SetEnd(metrics::ConnectionEnd::kTls);
    // The code that closed the connection at this end has logged the reason.
    if (!secured.error().empty()) options_.tls->LogRefusal(peer_.address.address(), secured.error());
    co_return false;
  }

  const tls::Facts& facts = socket_->tls()->facts();
  peer_.protection = facts.mutual ? Protection::kMutualTls : Protection::kTls;
  peer_.certificate = facts.peer;
  peer_.connection = NewConnectionNumber();
  max_calls_ = options_.max_calls;
  order_ = CallOrder();  // no call is under way; gaps of plain calls must not count
  back_channel_ = std::make_shared<Back>(*this);
  peer_.back_channel = back_channel_;
  // RFC 9289 §6.1 requires a log of the chosen security.
  log::info("connection of {} has TLS: {}; client certificate: {}", client, facts.ToString(),
            facts.peer ? facts.peer->ToString() : "none");
  place_->Describe(peer_);
  TellIdle();
  co_return true;
}

}  // namespace penstock::rpc::tcp
