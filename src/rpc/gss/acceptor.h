// The server's side of RPCSEC_GSS version 1 (RFC 2203): it establishes security contexts with clients, admits their
// calls, and seals the replies.
#pragma once

#include <functional>
#include <memory>

#include "base/address.h"
#include "base/refusal_log.h"
#include "base/workers.h"
#include "protocol/rpcsec_gss.h"
#include "rpc/gss/conjunction.h"
#include "rpc/gss/context_table.h"
#include "rpc/gss/mechanism.h"
#include "rpc/security_flavor.h"

namespace penstock::rpc::gss {

// Shared by all loops; thread-safe.
class Acceptor final : public SecurityFlavor {
 public:
  struct Parts {
    Mechanism& mechanism;
    const TimerService& clock;  // Now() is called on any thread
    ContextTable::Random random;
    // Runs operations that take long. If null, they run at once.
    Workers* pool = nullptr;
    // Establishes contexts, which may block: the mechanism looks up users. The same for null.
    Workers* negotiators = nullptr;
    ContextTable::Limits limits{};
    // Returns true if the connections of a peer with this address are protected by other means than RPCSEC_GSS: clients
    // there may make CCM contexts. If empty, no client may. Called on any thread.
    std::function<bool(const IpAddress&)> is_protected{};
    // Logs contexts that are refused. Null: nothing does.
    RefusalLog* refusals = nullptr;
  };
  // The objects in `parts` must outlive the acceptor.
  explicit Acceptor(Parts parts)
      : mechanism_(parts.mechanism),
        clock_(parts.clock),
        pool_(parts.pool),
        negotiators_(parts.negotiators),
        is_protected_(std::move(parts.is_protected)),
        refusals_(parts.refusals),
        contexts_(parts.limits, std::move(parts.random)) {}

  std::shared_ptr<ReverseProtection> Reverse(ConstBytes handle, ConstBytes reverse_handle,
                                             const GssInitiator& initiator) override;
  // Accepts calls under `protection`, which belongs to a context that this end has made, and returns the handle for
  // them. Nothing if there is no room.
  std::optional<Handle> Adopt(std::shared_ptr<ProtectedContext> protection, Initiator caller);

  Task<Admission> Admit(const Message& call, const CallHeader& header, size_t arguments_at, const Peer& peer) override;

  const ContextTable& contexts() const { return contexts_; }

 private:
  // A call and its decoded credential.
  struct Incoming {
    const Message& call;
    const CallHeader& header;
    size_t arguments_at;
    const Peer& peer;
    rpcsecgss::rpc_gss_cred_vers_1_t credential;
  };
  // The result of a token.
  struct Negotiated {
    std::unique_ptr<MechanismContext> mechanism;  // if more tokens are needed
    MechanismContext::Step step;
    std::shared_ptr<SecurityContext> context;  // if the context is complete
    Mic verifier{};
  };
  enum class Verdict : uint8_t { kAccepted, kDropped, kBadVerifier, kNotOfContext, kContextOver };

  Task<Message> Negotiate(const Incoming& incoming);
  Result<Negotiated> TakeToken(std::unique_ptr<MechanismContext> mechanism, const Handle& handle, ConstBytes token);
  // Makes a CCM context from its token's body.
  Task<Result<Negotiated>> Conjoin(const Peer& peer, const Handle& handle, ConstBytes body);
  // Requires the context's turn.
  static Verdict Verify(const Incoming& incoming, SecurityContext& context);
  Task<Admission> AdmitData(const Incoming& incoming);

  Mechanism& mechanism_;
  const TimerService& clock_;
  Workers* const pool_;
  Workers* const negotiators_;
  const std::function<bool(const IpAddress&)> is_protected_;
  RefusalLog* const refusals_;
  ContextTable contexts_;
};

}  // namespace penstock::rpc::gss
