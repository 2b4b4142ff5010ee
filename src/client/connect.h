// Opens the connection that a URL asks for: over TCP, with or without TLS, or RDMA, to the host and port of the URL.
// Turns a connection over TCP into one over RDMA.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/timer.h"
#include "base/workers.h"
#include "client/reconnecting_channel.h"
#include "client/url.h"
#include "rdma/provider.h"
#include "rpc/connection_control.h"
#include "rpc/transport.h"

namespace penstock::rpc::tcp {
class Channel;
}

namespace penstock::client {

struct ChannelOptions {
  // The time limit of the attempt. The addresses of the server share it: each one gets an equal part of what is left.
  // The URL's timeout limits the part of each address further.
  Duration time_limit = Duration::max();
  // A call that has no reply after this time fails. Zero: the first limit of the URL.
  Duration reply_limit = Duration::zero();
  // Over RDMA, the client sends a probe to a server that has been silent for `probe_after`, and ends the connection if
  // the server is silent for another `probe_limit` (RFC 8267 §6.7.2). Zero turns probes off.
  Duration probe_after = std::chrono::seconds(15);
  Duration probe_limit = std::chrono::seconds(15);
  // Executes the server's calls over the connection (callbacks of NFSv4.1). It outlives the channel and its own calls.
  // Null: the client accepts no calls.
  rpc::CallHandler* back_channel = nullptr;
  // Over RDMA, not zero: the connection begins with one credit, and the client and the server agree on its limits in
  // their first exchanges (draft-talpey-nfsv4-rdma-sess-01 §2.3.3). Then the caller passes them to
  // rpcrdma::Client::Bind(). This is the longest reply that they may agree on.
  uint32_t agrees_on = 0;
  // Called when the connection is lost or closed, at most once. It must not destroy the channel. Empty: nobody is told.
  std::function<void()> on_lost{};
  // Ends the set-up of the connection early. Null: nothing does.
  Cancellation* cancellation = nullptr;
  // If there are any, the client connects to one of these addresses, and does not look up the name of the host.
  std::vector<SocketAddress> addresses{};
  // Not null: the client sets it to the address to which it has connected.
  std::optional<SocketAddress>* reached = nullptr;
};

// Looks up the addresses of url.host, those that url.family admits, on a thread of `workers`, because that may block. A
// look-up that is cancelled goes on, and nobody hears of its result. They have the port url.port. The error has no name
// of the host. Its errno is EHOSTUNREACH for an unknown host.
Task<SetupResult<std::vector<SocketAddress>>> FindAddresses(Loop& loop, Workers& workers, const Url& url,
                                                            Cancellation* cancellation);

// Looks up url.host on a thread of `workers`, because that may block, and connects to port url.port of the first
// address that answers. A look-up that is cancelled goes on, and nobody hears of its result. A failure of TLS is not
// tried again with another address. With url.transport_security the connection has TLS before anything but the probe
// for it is sent (RFC 9289). Logs at the level of information which protection the connection has. For RDMA `provider`
// must not be null. If url.finds_port is set and no address accepts a connection over TCP, asks the server's rpcbind
// for the port. The error is that of the last address, EHOSTUNREACH for an unknown host, and EACCES if the client and
// the server do not agree on TLS.
Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenChannel(Loop& loop, Workers& workers, Url url,
                                                             rdma::Provider* provider, ChannelOptions options = {});

// Makes a connection of the next kind for the opener of `channel`, as OpenChannel() does, with the channel's reply
// limit and Cancellation. ConnectionKind::kOther is TCP to url.tcp_port. One beside
// others leads to the same address, and is returned after the server has answered over it: a server with enough
// connections may accept one more and close it at once, and a call that is lost so may have to wait for a connection
// that stays.
Task<SetupResult<std::unique_ptr<rpc::Channel>>> OpenConnectionOf(ReconnectingChannel& channel, Loop& loop,
                                                                  Workers& workers, Url url, rdma::Provider* provider,
                                                                  ChannelOptions options);

// Turns the TCP connection of `tcp` into an RDMA connection, in place ("stepping up": draft-talpey-nfsv4-rdma-sess-01
// §2.3.2, RFC 8881 §18.36.3). Call this after the reply in which the server has granted it with `limits`, and before
// any other call over the connection; afterwards `tcp` is closed. `provider` must be able to step up, as software iWARP
// is. `url` and `options` say the same as above. Returns the channel for all later calls. The first call must come from
// the client: until then, calls of the server wait (RFC 5044 §7.1.2 rule 4).
Task<SetupResult<std::unique_ptr<rpc::Channel>>> StepUp(Loop& loop, rpc::tcp::Channel& tcp, rdma::Provider& provider,
                                                        rpc::ConnectionLimits limits, Url url,
                                                        ChannelOptions options = {});

}  // namespace penstock::client
