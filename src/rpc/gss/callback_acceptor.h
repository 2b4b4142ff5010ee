// The acceptor of a client: it executes the calls of a server under the contexts that the client has made with the
// server (RFC 8881 §2.10.8.2). A server cannot make a context with it.
#pragma once

#include <memory>
#include <optional>

#include "rpc/gss/acceptor.h"
#include "rpc/gss/client_context.h"

namespace penstock::rpc::gss {

// Belongs to one loop.
class CallbackAcceptor final {
 public:
  // `clock` and `pool` outlive it. `pool` may be null.
  CallbackAcceptor(const TimerService& clock, Workers* pool);

  // Admits calls for a Dispatcher.
  SecurityFlavor& flavor() { return acceptor_; }

  // From now on admits calls under `context`, and returns the handle that the server must use in them. Nothing if there
  // are too many. `server` is the name of the caller.
  std::optional<Handle> Adopt(const ClientContext::Established& context, const std::string& server);

 private:
  // Refuses all tokens.
  class NoMechanism final : public Mechanism {
   public:
    std::unique_ptr<MechanismContext> Begin() override;
  };

  const TimerService& clock_;
  NoMechanism no_mechanism_;
  Acceptor acceptor_;
};

}  // namespace penstock::rpc::gss
