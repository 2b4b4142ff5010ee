// The client's side of RPCSEC_GSS version 1 (RFC 2203): the security context of one initiator with one server.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/loop.h"
#include "base/pauses.h"
#include "base/result.h"
#include "base/signal.h"
#include "base/task.h"
#include "base/timer.h"
#include "base/workers.h"
#include "rpc/gss/context.h"
#include "rpc/gss/mechanism.h"
#include "rpc/gss/sealing.h"
#include "rpc/gss/secured_call.h"
#include "rpc/gss/token_maker.h"
#include "rpc/header.h"
#include "rpc/transport.h"

namespace penstock::rpc::gss {

// Returns the XID of calls that make a context for the call `xid`, or give one back after it. With the XID of that
// call, a server that remembers calls would take one for a repetition of the other. Neither other calls under way nor
// the probes of the RPC-over-RDMA transport, 2^31 away from calls, have it.
constexpr Xid ControlXid(Xid xid) { return Xid(xid.value() ^ 1U << 30); }

// The connections of a client to one server share a ClientContext; a context does not belong to a connection. It makes
// the context with the first call, makes another one shortly before that one ends, and again if the server has
// forgotten it (RFC 2203 §5.3.3.3). The token for another one is made while calls use the one before. Belongs to one
// loop.
class ClientContext {
 public:
  struct Parts {
    std::shared_ptr<InitiatingMechanism> mechanism;
    TimerService& timers;
    // Where messages are sealed.
    SealingPlace place;
    // Where the mechanism makes its tokens: see TokenMaker::Place. Null: on a thread of this context.
    std::shared_ptr<Workers> token_threads{};
    // How long a call waits for a context if a service in the network does not answer. For the first context it waits
    // for one answer only.
    Duration patience = Duration::zero();
  };
  // The loop, the timers and the pool in `parts` outlive the context.
  explicit ClientContext(Parts parts) : parts_(std::move(parts)), pauses_(parts_.timers) {}
  ClientContext(const ClientContext&) = delete;
  ClientContext& operator=(const ClientContext&) = delete;

  // An established context.
  struct Established : CallingContext {
    // The most calls that may be under way (RFC 2203 §5.2.3.1: seq_window).
    uint32_t window = 1;
    TimePoint renew_at = TimePoint::max();
    TimePoint expires = TimePoint::max();
    uint32_t last_number = 0;  // the last sequence number that was used
    uint32_t under_way = 0;
    bool forgotten = false;  // by the server
    Signal freed;

    bool has_number() const;  // whether another call can have a sequence number
  };

  // A call under way: its context and its sequence number.
  struct Use {
    std::shared_ptr<Established> context;
    uint32_t number = 0;
  };
  // Returns a context for one call, and its sequence number. Makes a context over `channel` if necessary, by calls of
  // the program and version of `header`, which is the header of that call. Fails with kNoContext if there can be none:
  // see trouble(). Every Use must end.
  Task<penstock::Result<Use, CallError>> Begin(Channel& channel, const CallHeader& header);
  // Ends a Use. Returns another Use, for a call that gives a context back, if there is a context that is no longer
  // needed.
  std::optional<Use> End(const Use& use);
  // The server does not know the context of `use`, or does not accept it any more: no later call uses it.
  void Forget(const Use& use);
  // Calls that wait for a context fail with kNoContext, also later ones.
  void Stop();
  // Ends the use of the current context. Returns a Use for the call that gives it back, if there is one.
  std::optional<Use> Close();

  const SealingPlace& place() const { return parts_.place; }
  // Says why there is no context, as a text for users. Empty if the last attempt to make one has succeeded.
  const std::string& trouble() const { return trouble_; }
  // Whether that was a service in the network that did not answer.
  bool trouble_may_pass() const { return trouble_may_pass_; }
  // The context that calls use; null if there is none.
  const Established* current() const { return current_.get(); }
  // The number of contexts that were made.
  uint64_t made() const { return made_; }

 private:
  // Why a context could not be made.
  struct Refusal {
    CallError error = CallError::kNoContext;  // otherwise the channel has failed
    Failure failure{};                        // for kNoContext
  };
  using Made = penstock::Result<std::shared_ptr<Established>, Refusal>;
  bool IsUsable() const;
  // Begins to make the first token of another context, unless there is one that can be sent.
  void BeginToken();
  TokenMaker::Place PlaceOfToken();
  Task<penstock::Result<void, CallError>> MakeCurrent(Channel& channel, const CallHeader& header);
  // Waits for tokens until `until`.
  Task<Made> Make(Channel& channel, const CallHeader& header, TimePoint until);
  // The results of a call that has carried a token.
  struct Answer;
  Task<penstock::Result<Answer, Refusal>> SendToken(Channel& channel, const CallHeader& header, ConstBytes handle,
                                                    ConstBytes token);
  // Returns a Use for the call that gives `context` back, if there is something to give back.
  static std::optional<Use> LastUse(const std::shared_ptr<Established>& context);

  Parts parts_;
  Pauses pauses_;
  std::shared_ptr<Established> current_;
  std::vector<std::shared_ptr<Established>> previous_;  // replaced while no call was under way, and not given back yet
  std::string initiator_;                               // of the first context
  std::unique_ptr<TokenMaker> first_token_;             // of another context
  TokenMaker* waiting_for_ = nullptr;                   // the maker of the token that a call waits for
  bool making_ = false;
  uint64_t attempts_ = 0;  // that have ended
  CallError last_error_ = CallError::kNoContext;
  uint64_t made_ = 0;
  std::string trouble_;
  bool trouble_may_pass_ = false;
  Signal changed_;
};

}  // namespace penstock::rpc::gss
