#include "server/callback_connections.h"

#include <utility>

#include "rpc/client_key.h"
#include "rpc/gss/kerberos_client.h"
#include "rpc/gss/secured_channel.h"

namespace penstock::server {
namespace {

// A thread whose KDC does not answer is occupied for as long as the library waits. One client gets a quarter of them.
constexpr size_t kTokenThreads = 8;

}  // namespace

CallbackConnections::CallbackConnections(Parts parts)
    : parts_(std::move(parts)), token_threads_(std::make_shared<Workers>(kTokenThreads, Workers::AtEnd::kLeave)) {}

Task<std::shared_ptr<rpc::Channel>> CallbackConnections::To(const nfs::v4::CallbackAddress& client) {
  const std::optional<nfs::v4::CallbackSecurity> security = client.security;
  const SocketAddress endpoint = *client.endpoint;
  if (security && !parts_.keytab) co_return nullptr;
  auto channel = co_await nfs::v4::ConnectByTcp(parts_.loop, endpoint, parts_.call_limit);
  if (!channel || !security) co_return channel;
  rpc::Peer host;
  host.address = endpoint;
  auto initiator = std::make_shared<rpc::gss::KerberosClient>(rpc::gss::KerberosClientOptions{
      .acceptor = security->client, .keytab = *parts_.keytab, .principal = security->server});
  auto context = std::make_shared<rpc::gss::ClientContext>(
      rpc::gss::ClientContext::Parts{.mechanism = std::move(initiator),
                                     .timers = parts_.loop,
                                     .place = {.buffers = parts_.loop.buffers(),
                                               .loop = &parts_.loop,
                                               .pool = &parts_.pool,
                                               .client = rpc::ClientKeyOf(host)},
                                     .token_threads = token_threads_,
                                     .patience = parts_.call_limit});
  co_return std::make_shared<rpc::gss::SecuredChannel>(std::move(channel), std::move(context));
}

}  // namespace penstock::server
