#include "client/connect.h"

#include <fmt/core.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cassert>
#include <cerrno>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/address.h"
#include "base/log.h"
#include "base/released_socket.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/wait_limit.h"
#include "client/ports.h"
#include "protocol/nfs3.h"
#include "rpc/client.h"
#include "rpc/header.h"
#include "rpc/tcp/channel.h"
#include "rpc/tcp/secure_client.h"
#include "rpcrdma/client.h"

namespace penstock::client {
namespace {

using Opened = SetupResult<std::unique_ptr<rpc::Channel>>;
using Found = SetupResult<std::vector<SocketAddress>>;

SetupError Cancelled() { return {"cancelled", ECANCELED}; }

// Looks up the addresses of `host`. Blocks.
Found LookUp(const std::string& host, uint16_t port) {
  asio::io_context context;
  asio::ip::tcp::resolver resolver(context);
  asio::error_code error;
  const auto found = resolver.resolve(host, "", error);
  if (error) return std::unexpected(SetupError{error.message(), EHOSTUNREACH});
  std::vector<SocketAddress> endpoints;
  for (const auto& entry : found) endpoints.emplace_back(entry.endpoint().address(), port);
  return endpoints;
}

// Shared with the thread of a look-up, which may outlive its caller and the loop.
struct PendingLookUp {
  std::mutex mutex;
  bool is_left = false;  // under the mutex: the caller does not wait any more
  Found found;
  OneShot<> over;  // belongs to the loop
};

// LookUp() on a thread of `workers`.
Task<Found> LookUpAside(Loop& loop, Workers& workers, const std::string& host, uint16_t port,
                        Cancellation* cancellation) {
  if (IsCancelled(cancellation)) co_return std::unexpected(Cancelled());
  const auto pending = std::make_shared<PendingLookUp>();
  workers.Post([pending, host, port, &loop] {
    Found found = LookUp(host, port);
    const std::lock_guard lock(pending->mutex);
    if (pending->is_left) return;
    pending->found = std::move(found);
    loop.Post([pending] {
      if (!pending->over.is_set()) pending->over.Set();
    });
  });
  const auto leave = [pending] {
    if (pending->over.is_set()) return;
    {
      const std::lock_guard lock(pending->mutex);
      pending->is_left = true;
      pending->found = std::unexpected(Cancelled());
    }
    pending->over.Set();
  };
  const Cancellation::Entry entry(cancellation, leave);
  co_await pending->over;
  co_return std::move(pending->found);
}

std::string_view Describe(rdma::ConnectError::Kind kind) {
  using Kind = rdma::ConnectError::Kind;
  switch (kind) {
    case Kind::kUnreachable:
      return "cannot be reached";
    case Kind::kRefused:
      return "connection refused";
    case Kind::kRejected:
      return "the server rejected the connection: it may be full, or it may not serve this host";
    case Kind::kTimedOut:
      return "timed out";
    case Kind::kProtocol:
      return "violates the RDMA protocol, or this is no port for RDMA";
    case Kind::kCancelled:
      return "cancelled";
  }
  return "failed";
}

int ErrnoOfConnect(rdma::ConnectError::Kind kind) {
  using Kind = rdma::ConnectError::Kind;
  switch (kind) {
    case Kind::kUnreachable:
      return EHOSTUNREACH;
    case Kind::kRefused:
    case Kind::kRejected:
      return ECONNREFUSED;
    case Kind::kTimedOut:
      return ETIMEDOUT;
    case Kind::kProtocol:
      return EPROTO;
    case Kind::kCancelled:
      return ECANCELED;
  }
  return EIO;
}

// Makes a NULL call, which every NFS server answers at once.
rpc::Message MakeProbe(BufferPool& buffers, rpc::Xid xid) {
  using Null = nfs3::NFSPROC3_NULL;
  xdr::Encoder encoder(buffers);
  rpc::EncodeCallHeader(encoder, {xid, Null::kProgram, Null::kVersion, Null::kNumber, {}, {}});
  return encoder.Finish();
}

// A call that takes longer is repeated over another connection: a server may answer probes and still never answer the
// call.
Duration ReplyLimit(const Url& url, const ChannelOptions& channel) {
  const Duration limit = channel.reply_limit > Duration::zero() ? channel.reply_limit : url.recovery.ReplyLimit();
  return std::min(limit, url.recovery.CallLimit());
}

// The limit for the server's answer to a connection request.
Duration ConnectLimit(const Url& url, const ChannelOptions& channel) {
  constexpr Duration kLongest = std::chrono::seconds(60);
  return std::min({kLongest, channel.time_limit, url.recovery.CallLimit()});
}

// Where the peers agree on sizes after the set-up: the sessions of 2004 (docs/sessions-2004.md). Whole pages move by
// RDMA.
constexpr uint32_t kUsualInlineData = 4095;

LocalPort PortFor(const Url& url) { return url.reserved_port ? LocalPort::kReserved : LocalPort::kAny; }

rpcrdma::ClientOptions RdmaOptions(Loop& loop, const rdma::Provider& provider, const Url& url,
                                   const ChannelOptions& channel, std::stop_token stop) {
  rpcrdma::ClientOptions options;
  options.loop = &loop;
  options.local_port = PortFor(url);
  options.connect_limit = ConnectLimit(url, channel);
  options.requester.call_timeout = ReplyLimit(url, channel);
  const uint32_t inline_data =
      url.inline_data.value_or(channel.agrees_on > 0 ? kUsualInlineData : provider.inline_data());
  options.requester.min_chunk = size_t{inline_data} + 1;
  options.back_channel = channel.back_channel;
  options.on_lost = channel.on_lost;
  options.stop = stop;
  if (channel.agrees_on > 0) {
    options.requester.one_receive_first = true;
    options.max_agreed_size = std::max(channel.agrees_on, options.private_data.receive_size);
  } else {
    options.private_data = rpcrdma::PrivateData::ForInlineData(inline_data);
  }
  options.private_data.remote_invalidation = provider.remote_invalidation();
  if (channel.probe_after > Duration::zero()) {
    options.requester.health = {.probe = MakeProbe, .after = channel.probe_after, .limit = channel.probe_limit};
  }
  return options;
}

SetupError Explain(const rdma::ConnectError& error) {
  const int number = ErrnoOfConnect(error.kind);
  // These kinds explain the error completely, so the message leaves out the detail.
  const bool is_clear =
      error.kind == rdma::ConnectError::Kind::kRefused || error.kind == rdma::ConnectError::Kind::kRejected;
  const auto refusal = rpcrdma::ParseRejection(error.private_data);
  if (error.kind == rdma::ConnectError::Kind::kRejected && refusal != rpc::ConnectionTable::Refusal::kNone) {
    return {fmt::format("the server rejected the connection: {}", ToString(refusal)), number};
  }
  if (error.detail.empty() || is_clear) return {std::string(Describe(error.kind)), number};
  return {fmt::format("{} ({})", Describe(error.kind), error.detail), number};
}

Task<Opened> OpenRdma(Loop& loop, rdma::Provider& provider, SocketAddress server, const Url& url,
                      ChannelOptions channel) {
  std::stop_source stop;
  const Cancellation::Entry entry(channel.cancellation, [stop]() mutable { stop.request_stop(); });
  rpcrdma::ClientOptions options = RdmaOptions(loop, provider, url, channel, stop.get_token());
  auto connected = co_await rpcrdma::Connect(provider, server, std::move(options), loop);
  if (!connected) co_return std::unexpected(Explain(connected.error()));
  log::info("connection to {} port {}: over RDMA, without TLS", url.host, url.port);
  co_return *std::move(connected);
}

// Returns the terms of TLS for a connection to the server of `url`.
SetupResult<rpc::tcp::ClientSecurity> SecurityFor(const Url& url) {
  PENSTOCK_TRY(auto context, url.tls->Context());
  const bool mutual = url.transport_security == TransportSecurity::kMutualTls;
  if (mutual && !context->has_certificate()) {
    return std::unexpected(
        SetupError{"xprtsec=mtls needs a certificate of this client: name it with --tls-cert and --tls-key"});
  }
  // RFC 9289 §6.1.1: a server that had TLS does not lose it silently.
  const bool required =
      url.transport_security != TransportSecurity::kOpportunistic || url.tls->HadTls(url.host, url.port);
  return rpc::tcp::ClientSecurity{.context = std::move(context),
                                  .terms = {.host = url.host, .mutual = mutual},
                                  .required = required,
                                  .program = nfs3::NFSPROC3_NULL::kProgram,
                                  .version = nfs3::NFSPROC3_NULL::kVersion};
}

// Sets `has_tls` when the server answers that it has TLS. From then on an opportunistic client requires TLS of it,
// whatever comes of the handshake (RFC 9289 §6.1.1).
Task<Opened> OpenSecurely(Loop& loop, SocketAddress server, const Url& url, rpc::tcp::ChannelOptions options,
                          bool& has_tls) {
  auto security = SecurityFor(url);
  if (!security) co_return std::unexpected(std::move(security).error());
  security->on_starttls = [&url, &has_tls] {
    has_tls = true;
    url.tls->NoteTls(url.host, url.port);
  };
  auto connected = co_await rpc::tcp::Channel::ConnectSecurely(loop, server, options, *security);
  if (!connected) co_return std::unexpected(std::move(connected).error());
  // RFC 9289 §6.1 requires a log of the chosen security.
  if (const rpc::tls::Facts* facts = (*connected)->tls()) {
    log::info("connection to {} port {}: {}; the server's certificate: {}", url.host, url.port, facts->ToString(),
              facts->peer->ToString());
  } else {
    log::warn("connection to {} port {}: in plain text, because the server has no TLS (xprtsec=opportunistic)",
              url.host, url.port);
  }
  co_return *std::move(connected);
}

Task<Opened> OpenTcp(Loop& loop, SocketAddress server, const Url& url, ChannelOptions channel, bool& has_tls) {
  rpc::tcp::ChannelOptions options;
  options.local_port = PortFor(url);
  options.connect_limit = std::min(options.connect_limit, ConnectLimit(url, channel));
  options.call_limit = ReplyLimit(url, channel);
  options.back_channel = channel.back_channel;
  options.on_closed = channel.on_lost;
  options.cancellation = channel.cancellation;
  if (url.transport_security != TransportSecurity::kNone)
    co_return co_await OpenSecurely(loop, server, url, std::move(options), has_tls);
  auto connected = co_await rpc::tcp::Channel::Connect(loop, server, options);
  if (!connected) co_return std::unexpected(SetupError{connected.error().message(), connected.error().value()});
  log::info("connection to {} port {}: in plain text (xprtsec=none)", url.host, url.port);
  co_return *std::move(connected);
}

}  // namespace

Task<Found> FindAddresses(Loop& loop, Workers& workers, const Url& url, Cancellation* cancellation) {
  Found found = co_await LookUpAside(loop, workers, url.host, url.port, cancellation);
  if (!found || url.family == AddressFamily::kAny) co_return found;
  const bool wants_v6 = url.family == AddressFamily::kIpv6;
  // An address of IPv6 in the URL itself leaves no choice.
  if (!wants_v6 && url.host.contains(':')) co_return found;
  std::erase_if(*found, [wants_v6](const SocketAddress& each) { return each.address().is_v6() != wants_v6; });
  if (found->empty()) {
    co_return std::unexpected(
        SetupError{wants_v6 ? "has no IPv6 address" : "has no IPv4 address; tcp6 and rdma6 use IPv6", EHOSTUNREACH});
  }
  co_return found;
}

namespace {

Task<Opened> OpenAt(Loop& loop, SocketAddress endpoint, const Url& url, rdma::Provider* provider,
                    const ChannelOptions& options, bool& has_tls) {
  if (url.protocol != Protocol::kRdma) co_return co_await OpenTcp(loop, endpoint, url, options, has_tls);
  assert(provider);
  const auto chosen = provider->Toward(endpoint.address());
  if (!chosen) co_return std::unexpected(chosen.error());
  co_return co_await OpenRdma(loop, **chosen, endpoint, url, options);
}

// Connects to the first address that answers.
Task<Opened> OpenAtAny(Loop& loop, const std::vector<SocketAddress>& endpoints, const Url& url,
                       rdma::Provider* provider, const ChannelOptions& options) {
  SetupError why{"has no address", EHOSTUNREACH};
  bool has_tls = false;  // an address has answered that it has TLS
  const TimePoint begin = loop.Now();
  for (size_t i = 0; i < endpoints.size(); ++i) {
    if (IsCancelled(options.cancellation)) co_return std::unexpected(Cancelled());
    // An address that does not answer leaves the others their time.
    ChannelOptions part = options;
    const Duration left = std::max(options.time_limit - (loop.Now() - begin), Duration::zero());
    part.time_limit = left / static_cast<int64_t>(endpoints.size() - i);
    Opened opened = co_await OpenAt(loop, endpoints[i], url, provider, part, has_tls);
    if (opened && options.reached) *options.reached = endpoints[i];
    if (opened) co_return opened;
    why = std::move(opened).error();
    if (has_tls) break;  // a failure of TLS: the user must hear of it, and no other address may hide it
  }
  co_return std::unexpected(why);
}

SetupError OfPort(const Url& url, const SetupError& why) {
  return {fmt::format("{} port {}: {}", url.host, url.port, why.message), why.number};
}

// The version of NFS for rpcbind.
uint32_t VersionForRpcbind(const Url& url) { return url.version == Version::k3 ? 3 : 4; }

}  // namespace

Task<Opened> OpenChannel(Loop& loop, Workers& workers, Url url, rdma::Provider* provider, ChannelOptions options) {
  const auto fail = [&url](const SetupError& why) { return std::unexpected(OfPort(url, why)); };
  Found endpoints = std::move(options.addresses);
  if (endpoints->empty()) endpoints = co_await FindAddresses(loop, workers, url, options.cancellation);
  if (!endpoints) co_return fail(endpoints.error());
  Opened opened = co_await OpenAtAny(loop, *endpoints, url, provider, options);
  if (opened) co_return opened;
  const bool asks = url.finds_port && url.protocol != Protocol::kRdma && opened.error().number == ECONNREFUSED;
  if (!asks) co_return fail(opened.error());
  const auto port = co_await PortByRpcbind(loop, workers, url, nfs3::NFSPROC3_NULL::kProgram, VersionForRpcbind(url),
                                           rpc::TransportKind::kTcp, options.cancellation);
  if (!port) {
    co_return fail({fmt::format("{} (rpcbind: {})", opened.error().message, port.error().message), ECONNREFUSED});
  }
  if (*port == url.port) co_return fail(opened.error());
  log::info("{}: NFS is at port {}, as its rpcbind says", url.host, *port);
  url.port = *port;
  std::vector<SocketAddress> others;
  for (const SocketAddress& each : *endpoints) others.emplace_back(each.address(), *port);
  opened = co_await OpenAtAny(loop, others, url, provider, options);
  if (!opened) co_return fail(opened.error());
  co_return opened;
}

namespace {

// Waits for an answer of the server. The channel may be destroyed afterwards.
Task<SetupResult<void>> AwaitAnswer(Loop& loop, rpc::Channel& channel, Cancellation* cancellation) {
  constexpr Duration kLimit = std::chrono::seconds(10);
  // This code may run inside of the channel, which must not be used or destroyed in the same turn.
  co_await Sleep(loop, Duration::zero());
  if (IsCancelled(cancellation)) co_return std::unexpected(Cancelled());
  std::optional<WaitLimit> limit(std::in_place, loop, kLimit, cancellation, [&channel] { channel.Close(); });
  rpc::Client client(channel, loop.buffers(), rpc::RandomXid());
  const auto answer = co_await client.Call<nfs3::NFSPROC3_NULL>({});
  limit.reset();
  co_await Sleep(loop, Duration::zero());
  if (IsCancelled(cancellation)) co_return std::unexpected(Cancelled());
  // Any reply will do: that of a server without version 3 as well.
  if (!answer && answer.error().kind == rpc::Error::Kind::kTransport) {
    co_return std::unexpected(
        SetupError{"the server does not answer over a further connection: it may be full", ECONNRESET});
  }
  co_return SetupResult<void>();
}

// Returns the URL of the connection over TCP that a mount has besides those over RDMA.
Url OverTcp(Url url) {
  assert(url.tcp_port);
  url.protocol = Protocol::kTcp;
  url.port = *url.tcp_port;
  url.finds_port = false;
  return url;
}

}  // namespace

Task<Opened> OpenConnectionOf(ReconnectingChannel& channel, Loop& loop, Workers& workers, Url url,
                              rdma::Provider* provider, ChannelOptions options) {
  const bool is_further = !channel.connections().empty();
  const bool is_other = channel.next_kind() == ConnectionKind::kOther;
  if (is_other) url = OverTcp(std::move(url));
  Cancellation* const cancellation = options.cancellation = channel.attempt();
  const std::optional<SocketAddress>& last = channel.server();
  if (is_further && last) {
    // The name of the host may lead to another server now. Each transport has a port of its own at the address.
    options.addresses = {SocketAddress(last->address(), url.tcp_port ? url.port : last->port())};
  } else {
    Found found = co_await FindAddresses(loop, workers, url, cancellation);
    if (!found) co_return std::unexpected(OfPort(url, found.error()));
    options.addresses = *std::move(found);
    // At another address of the name there may be another server over TCP.
    const auto is_last = [&last](const SocketAddress& each) { return last && each.address() == last->address(); };
    if (is_other) std::ranges::stable_partition(options.addresses, is_last);
  }
  channel.LimitAttempt();
  options.reply_limit = channel.reply_limit();
  options.reached = &channel.reached();
  Opened opened = co_await OpenChannel(loop, workers, std::move(url), provider, std::move(options));
  if (opened && is_further) PENSTOCK_CO_CHECK(co_await AwaitAnswer(loop, **opened, cancellation));
  co_return opened;
}

Task<Opened> StepUp(Loop& loop, rpc::tcp::Channel& tcp, rdma::Provider& provider, rpc::ConnectionLimits limits, Url url,
                    ChannelOptions options) {
  std::optional<ReleasedSocket> socket = tcp.Release();
  if (!socket) {
    tcp.Close();
    constexpr auto kWhy = "the connection is not idle, so that it cannot become an RDMA connection";
    co_return std::unexpected(SetupError{kWhy, EPROTO});
  }
  std::stop_source stop;
  const Cancellation::Entry entry(options.cancellation, [stop]() mutable { stop.request_stop(); });
  if (!url.inline_data) url.inline_data = kUsualInlineData;
  rpcrdma::ClientOptions rdma = RdmaOptions(loop, provider, url, options, stop.get_token());
  auto stepped = co_await rpcrdma::StepUp(provider, *std::move(socket), limits, std::move(rdma), loop);
  if (!stepped) co_return std::unexpected(Explain(stepped.error()));
  co_return *std::move(stepped);
}

}  // namespace penstock::client
