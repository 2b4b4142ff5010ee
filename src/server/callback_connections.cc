#include "server/callback_connections.h"

#include <utility>

#include "base/log.h"
#include "rpc/client_key.h"
#include "rpc/gss/kerberos_client.h"
#include "rpc/gss/secured_channel.h"

namespace penstock::server {
namespace {

// A thread whose KDC does not answer is occupied for as long as the library waits. One client gets a quarter of them.
constexpr size_t kTokenThreads = 8;

}  // namespace

// The connection to a client that uses Kerberos.
class CallbackConnections::Connection final : public rpc::Channel {
 public:
  Connection(CallbackConnections& owner, SocketAddress client, std::shared_ptr<rpc::Channel> channel,
             std::shared_ptr<rpc::gss::ClientContext> context)
      : owner_(owner),
        client_(std::move(client)),
        context_(std::move(context)),
        secured_(std::move(channel), context_),
        stopping_(&owner.stopping_, [context = context_] { context->Stop(); }) {}

  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message call, rpc::ReplyShape shape) override {
    auto reply = co_await secured_.Call(std::move(call), std::move(shape));
    const bool is_secured = reply || reply.error() != rpc::CallError::kNoContext;
    if (is_secured || owner_.stopping_.cancelled()) co_return reply;
    if (owner_.about_contexts_.Allows(owner_.parts_.loop.Now())) {
      log::warn("no callbacks to {}, and so no delegations: {}", client_.address().to_string(), context_->trouble());
    }
    // A client that refuses the ticket may have another key by now: the next connection gets another ticket.
    if (!context_->trouble_may_pass()) co_return std::unexpected(rpc::CallError::kDisconnected);
    co_return reply;
  }

 private:
  CallbackConnections& owner_;
  const SocketAddress client_;
  const std::shared_ptr<rpc::gss::ClientContext> context_;
  rpc::gss::SecuredChannel secured_;
  const Cancellation::Entry stopping_;
};

Task<std::shared_ptr<rpc::Channel>> CallbackConnections::To(const nfs::v4::CallbackAddress& client) {
  const std::optional<nfs::v4::CallbackSecurity> security = client.security;
  const SocketAddress endpoint = *client.endpoint;
  if (security && !parts_.keytab) co_return nullptr;
  auto channel = co_await nfs::v4::ConnectByTcp(parts_.loop, endpoint, parts_.call_limit, &stopping_);
  if (!channel || !security) co_return channel;
  if (!token_threads_)
    token_threads_ = std::make_shared<Workers>(kTokenThreads, Workers::AtEnd::kLeave,
                                               Workers::ThreadSettings{.name = "penstock-gss"});
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
  co_return std::make_shared<Connection>(*this, endpoint, std::move(channel), std::move(context));
}

}  // namespace penstock::server
