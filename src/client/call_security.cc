#include "client/call_security.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/set_up.h"
#include "rpc/gss/kerberos_client.h"
#include "rpc/gss/secured_channel.h"

namespace penstock::client {

using nfs_protocol::SecurityFlavor;
using rpc::gss::ClientContext;

namespace {

// The flavor of the first calls. From a list this takes one that identifies the user, because MOUNT refuses AUTH_NONE
// for most exports.
SecurityFlavor FirstFlavorOf(const Url& url) {
  if (url.security) return *url.security;
  const auto identifies = [](SecurityFlavor flavor) { return flavor != SecurityFlavor::kNone; };
  const auto first = std::ranges::find_if(url.flavors, identifies);
  return first == url.flavors.end() ? SecurityFlavor::kSys : *first;
}

}  // namespace

MakeInitiator KerberosInitiators(KerberosOptions options) {
  return [options = std::move(options)](const std::string& host) {
    return std::make_unique<rpc::gss::KerberosClient>(
        rpc::gss::KerberosClientOptions{.host = host, .keytab = options.keytab, .principal = options.principal});
  };
}

CallSecurity::CallSecurity(Loop& loop, Workers& workers, const Url& url, const MakeInitiator& make_initiator)
    : url_(url),
      flavor_(FirstFlavorOf(url)),
      initiator_(make_initiator ? make_initiator(url.host) : KerberosInitiators({})(url.host)),
      context_(std::make_shared<ClientContext>(
          ClientContext::Parts{.mechanism = initiator_,
                               .timers = loop,
                               .place = {.buffers = loop.buffers(), .loop = &loop, .pool = &workers},
                               .patience = url.recovery.CallLimit()})),
      callbacks_(loop, &workers) {}

rpc::ClientCredential CallSecurity::credential() const {
  switch (flavor_) {
    case SecurityFlavor::kNone:
      return {};
    case SecurityFlavor::kSys:
      return SystemCredentialOf(url_);
    default:
      return rpc::ClientCredential(ServicesOf(flavor_).front());
  }
}

SetupError CallSecurity::trouble() const {
  return {ServicesOf(flavor_).empty() ? std::string() : context_->trouble(), EACCES};
}

bool CallSecurity::seals() const { return flavor_ == SecurityFlavor::kKrb5i || flavor_ == SecurityFlavor::kKrb5p; }

std::optional<CallSecurity::CallbackContext> CallSecurity::OfferCallbackContext() {
  const ClientContext::Established* const context = context_->current();
  const auto services = ServicesOf(flavor_);
  if (!context || services.empty()) return std::nullopt;
  if (adopted_ != context_->made()) {
    const auto handle = callbacks_.Adopt(*context, initiator_->Acceptor());
    if (!handle) return std::nullopt;
    adopted_ = context_->made();
    adopted_handle_ = *handle;
  }
  return CallbackContext{.number = adopted_,
                         .handle_from_server = context->handle,
                         .handle_from_client = adopted_handle_,
                         .service = services.front()};
}

std::unique_ptr<rpc::Channel> CallSecurity::Protect(std::unique_ptr<rpc::Channel> channel) const {
  return std::make_unique<rpc::gss::SecuredChannel>(std::move(channel), context_);
}

}  // namespace penstock::client
