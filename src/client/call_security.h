// The protection of the calls of a mount to one server: its security flavor, and the security context of Kerberos.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "base/workers.h"
#include "client/url.h"
#include "nfs_protocol/security_flavors.h"
#include "rpc/auth.h"
#include "rpc/gss/callback_acceptor.h"
#include "rpc/gss/client_context.h"
#include "rpc/transport.h"

namespace penstock::client {

// Where a client gets its Kerberos tickets.
struct KerberosOptions {
  // The keytab from which the client gets tickets, and renews them. Empty: it uses the user's tickets (KRB5CCNAME).
  std::string keytab{};
  // With a keytab: the principal. Empty: the first one of the keytab.
  std::string principal{};
};

// Makes the initiator of the security contexts with the service nfs of a host.
using MakeInitiator = std::function<std::unique_ptr<rpc::gss::InitiatingMechanism>(const std::string& host)>;
// Returns a function that makes initiators of Kerberos.
MakeInitiator KerberosInitiators(KerberosOptions options);

// All connections of a mount to one server share it. Belongs to one loop, and outlives the connections.
class CallSecurity {
 public:
  // `loop` and `workers` outlive it. `workers` seal long messages.
  CallSecurity(Loop& loop, Workers& workers, const Url& url, const MakeInitiator& make_initiator);

  // The first flavor of the URL that identifies the user, or AUTH_SYS if it names none.
  nfs_protocol::SecurityFlavor flavor() const { return flavor_; }
  void set_flavor(nfs_protocol::SecurityFlavor flavor) { flavor_ = flavor; }
  // The credential of this flavor.
  rpc::ClientCredential credential() const;
  // Whether integrity or privacy protects all calls.
  bool seals() const;

  // Returns a channel over which calls have the protection of their credential.
  std::unique_ptr<rpc::Channel> Protect(std::unique_ptr<rpc::Channel> channel) const;

  // Admits the server's calls under the contexts of this client, for the dispatcher of its callbacks.
  rpc::SecurityFlavor& callback_flavor() { return callbacks_.flavor(); }
  // A context under which the server may call back (RFC 8881 §18.36.3, gss_cb_handles4).
  struct CallbackContext {
    uint64_t number = 0;  // counts the contexts
    std::vector<std::byte> handle_from_server;
    rpc::gss::Handle handle_from_client{};
    rpc::GssService service{};
  };
  // Returns the context that calls use now; nothing if there is none, or if the flavor has no contexts.
  std::optional<CallbackContext> OfferCallbackContext();

  // Calls that wait for a security context fail, also later ones.
  void Stop() { context_->Stop(); }

  // Whether calls have a security context, which EndOfContext() gives back (see rpc::ClientCredential).
  bool has_context() const { return context_->current() != nullptr; }
  // Says why there is no security context. The message is empty if there is one, or if the flavor needs none.
  SetupError trouble() const;

 private:
  const Url& url_;
  nfs_protocol::SecurityFlavor flavor_;
  const std::shared_ptr<rpc::gss::InitiatingMechanism> initiator_;
  const std::shared_ptr<rpc::gss::ClientContext> context_;
  rpc::gss::CallbackAcceptor callbacks_;
  uint64_t adopted_ = 0;  // the number of the context that `callbacks_` has adopted last
  rpc::gss::Handle adopted_handle_{};
};

}  // namespace penstock::client
