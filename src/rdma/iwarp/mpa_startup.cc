#include "rdma/iwarp/mpa_startup.h"

#include <stop_token>
#include <utility>

namespace penstock::rdma::iwarp {
namespace {

std::unexpected<ConnectError> Violation(std::string detail) {
  return std::unexpected(ConnectError{ConnectError::Kind::kProtocol, std::move(detail), {}});
}

}  // namespace

Task<ConnectResult> Initiate(const std::shared_ptr<ProviderState>& state, Exchange& exchange,
                             const MpaPreferences& preferences, ConnectOptions& options, bool& closed_unanswered) {
  const MpaFrame request = MakeRequest(preferences, options.private_data);
  const auto written = co_await exchange.Write(request.Serialize());
  if (!written) co_return std::unexpected(written.error());
  auto reply = co_await exchange.Read(MpaFrame::Kind::kReply);
  if (!reply) {
    closed_unanswered = reply.error().kind == ConnectError::Kind::kProtocol;
    co_return std::unexpected(std::move(reply).error());
  }
  if (exchange.has_read_ahead()) co_return Violation("octets in front of the first FPDU of the initiator");
  if (reply->rejected) {
    co_return std::unexpected(ConnectError{ConnectError::Kind::kRejected, "rejected by the peer",
                                           std::move(reply->private_data), DepthsOf(*reply)});
  }
  auto agreement = HandleReply(preferences, request, *reply);
  if (!agreement) {
    SendRefusal(state, exchange, agreement.error());
    co_return Violation(agreement.error().code.ToString());
  }
  co_return MakeEndpoint(state, exchange, *agreement, true, std::move(options), *std::move(reply));
}

Task<ConnectResult> Respond(std::shared_ptr<ProviderState> state, std::unique_ptr<Exchange> exchange, MpaFrame request,
                            ConnectOptions options) {
  MpaAnswer answer = AcceptRequest(PreferencesOf(state->options, options), request, std::move(options.private_data));
  const auto written = co_await exchange->Write(answer.reply.Serialize());
  if (!written) co_return std::unexpected(written.error());
  co_return MakeEndpoint(state, *exchange, answer.agreement, false, std::move(options), std::move(request));
}

Task<ConnectResult> StepUp(std::shared_ptr<ProviderState> state, ReleasedSocket socket, StepUpRole role,
                           std::vector<std::byte> last_octets, ConnectOptions options) {
  auto exchange =
      std::make_unique<Exchange>(state, std::move(socket.socket), options.time_limit, std::move(socket.read_ahead));
  const std::stop_token stop = options.stop;
  const std::stop_callback on_stop(stop, [&exchange] {
    if (exchange) exchange->Cancel();
  });
  const auto written = co_await exchange->Write(std::move(last_octets));
  if (!written) co_return std::unexpected(written.error());
  const MpaPreferences preferences = PreferencesOf(state->options, options);
  if (role == StepUpRole::kInitiator) {
    if (options.private_data.size() > MaxPrivateData(preferences.revision >= 2)) {
      co_return Violation("too much private data");
    }
    bool ignored = false;
    co_return co_await Initiate(state, *exchange, preferences, options, ignored);
  }
  auto request = co_await exchange->Read(MpaFrame::Kind::kRequest);
  if (!request) co_return std::unexpected(std::move(request).error());
  // RFC 5044 §7.1.2 rule 4: the initiator sends nothing more until it has the reply.
  if (exchange->has_read_ahead()) co_return Violation("octets behind the MPA Request");
  if (options.private_data.size() > MaxPrivateData(request->enhanced.has_value())) {
    co_return Violation("too much private data");
  }
  co_return co_await Respond(state, std::move(exchange), *std::move(request), std::move(options));
}

}  // namespace penstock::rdma::iwarp
