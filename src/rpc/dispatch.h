// The dispatcher finds the program and procedure of each call, answers the calls that no program may execute (RFC 5531
// §9), and looks up retransmitted calls in the reply cache.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/refusal_log.h"
#include "metrics/call_notes.h"
#include "rpc/auth.h"
#include "rpc/decoded_head.h"
#include "rpc/header.h"
#include "rpc/reply_cache.h"
#include "rpc/security_flavor.h"
#include "rpc/transport.h"

namespace penstock::metrics {
enum class CallRefusal : uint8_t;
}

namespace penstock::rpc {

// What a program notes about a call for Program::HandleFailure(), which logs refusals.
struct CallOutcome {
  // The error of the program's protocol, or zero. Procedures that Handle() binds need not set it, if their results
  // begin with `status`.
  uint32_t status = 0;
  std::string_view procedure{};   // the protocol's name, if the status is an error
  bool root_is_squashed = false;  // the caller is root, and the object's export takes the rights of root from it
  bool read_only = false;         // the object's export is read-only for the caller
  bool told = false;              // the reason is logged already, or is no refusal of the server
};

// One call, for the procedure that executes it.
struct CallContext {
  const Peer& peer;
  Xid xid{};
  uint32_t version = 0;
  uint32_t procedure = 0;
  Credential credential{};
  // A program sets the denial if it finds only during execution that the credential is not sufficient, since the object
  // of the call has rules of its own. The dispatcher then denies the call with this status and discards the results.
  AuthStatus denial = AuthStatus::AUTH_OK;
  // A program sets this if it could not execute the call, and its protocol has no error that asks the client to try
  // again. The dispatcher then discards the results and gives no reply, so the transport ends the connection
  // (CallHandler::HandleCall). The reply cache forgets the call.
  bool no_reply = false;
  // How the reply cache remembers the reply: at first as Program::Classify() says. A program may lower the value during
  // execution, if the call turns out to be harmless, or to be no more than a WRITE.
  Keep keep = Keep::kNothing;
  // See Classification.
  bool takes_arriving = false;
  // The part of the arguments that Program::Classify() has decoded. Program::Call() decodes the rest.
  DecodedHead head{};
  // A security flavor makes calls and replies longer. `call_overhead` is the number of octets by which the call was
  // longer than the arguments that the program sees; `reply_overhead` is the largest number of octets that the flavor
  // adds to the reply. Programs with agreed limits count them (RFC 8881 §18.36.3).
  size_t call_overhead = 0;
  size_t reply_overhead = 0;
  // What the program tells the counters about the call.
  metrics::CallNotes notes{};
  // What the program tells the log.
  CallOutcome outcome{};
};

// The facts about a call that the dispatcher needs before the program executes the call.
struct Classification {
  // How the reply cache remembers the reply. A remembered reply must own its memory. The value is
  //   kChange   if a second execution of the call would give another result;
  //   kWrite    if a second execution gives the same result but must not come late: the client may already have the
  //             reply of the first execution, and a late one would undo the later changes of the client;
  //   kNothing  otherwise, and if the program itself recognises duplicates, as the sessions of NFSv4.1 do.
  Keep keep = Keep::kNothing;
  // If false, the procedure does not take calls of this security flavor: AUTH_TOOWEAK. Procedure 0 takes every flavor
  // (RFC 5531 §12.1), even if this is false.
  bool accepts_flavor = true;
  // If true, the call must not be executed: GARBAGE_ARGS.
  bool is_garbage = false;
  // Whether Call() takes payloads that are still arriving (Data::arriving()), and ends within seconds even if the rest
  // never comes. Otherwise the dispatcher waits for them before.
  bool takes_arriving = false;
  // If true, the program judges the call in the order of arrival, and tells CallOrder::SetJudged() itself. Otherwise
  // later calls need not wait for a judgement.
  bool is_judged = false;
};

// An RPC program of any number of versions. Several programs of different versions may have the same number. All loops
// share a program.
class Program {
 public:
  virtual ~Program() = default;
  virtual uint32_t number() const = 0;
  virtual VersionRange versions() const = 0;

  // Classifies a call of one of versions(), before Call(). The dispatcher calls it once for each call. The program may
  // decode the beginning of the arguments; it stores what it decodes in `context.head`, and Call() continues at the
  // same place.
  //
  // A program that acts before it has decoded all arguments must also check that each item is at a DDP-eligible place.
  // Otherwise the call is garbage and must not be executed (RFC 8166 §6.1). Other programs detect this when they decode
  // the arguments.
  virtual Classification Classify(CallContext& context, xdr::Decoder& arguments) const = 0;

  // Judges a call that Classify() has seen, before its payloads have arrived: see CallHandler::PreviewCall(). Call()
  // follows with another context.
  virtual void Preview(CallContext& /*context*/, xdr::Decoder& /*arguments*/) const {}

  // Executes a call that Classify() has seen. Any status but SUCCESS discards the results; it is PROC_UNAVAIL,
  // GARBAGE_ARGS or SYSTEM_ERR. See Handle() in rpc/handle.h.
  virtual Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) = 0;

  // After Call(), if it has set CallOutcome::status: logs the failure if it is a refusal.
  virtual void HandleFailure(const CallContext& /*context*/) const {}
};

class Dispatcher : public CallHandler {
 public:
  // Without a reply cache: for programs whose procedures are all idempotent, or which recognise duplicates themselves.
  Dispatcher() = default;
  // `cache` and `clock` outlive the dispatcher. Any thread may ask the clock.
  Dispatcher(ReplyCache& cache, const TimerService& clock) : cache_(&cache), clock_(&clock) {}

  // Adds a program, before the first call. The program outlives the dispatcher. No two programs of the same number have
  // a version in common.
  void Add(Program& program);
  // Offers RPCSEC_GSS to clients, before the first call. `gss` outlives the dispatcher.
  void Offer(SecurityFlavor& gss) { gss_ = &gss; }
  // Logs refused calls from now on, before the first call. `log` outlives the dispatcher. `advice` returns a text for a
  // program and a version that is not served: the option that would serve it, or nothing.
  using Advice = std::function<std::string(uint32_t program, uint32_t version)>;
  void LogRefusals(RefusalLog& log, Advice advice) {
    refusals_ = &log;
    advice_ = std::move(advice);
  }

  // `peer.buffers` must be set.
  Task<Message> HandleCall(Message call, const Peer& peer) override;
  // Does nothing for calls with RPCSEC_GSS: they are authenticated by HandleCall().
  void PreviewCall(const Message& call, const Peer& peer) override;

 private:
  Task<Message> HandleSecured(Message call, const Peer& peer);
  // The facts about a call that a security flavor has admitted. The flavor has removed the call's header.
  struct Secured {
    const CallHeader& header;
    const Credential& credential;
    size_t call_overhead;
    size_t reply_overhead;
  };
  // `message` is a call, or the arguments of a call if `secured` is not null.
  Task<Message> Execute(Message message, const Peer& peer, const Secured* secured);
  // Returns null if no program has this number and version. `known` is then the range of versions of that number, if
  // any.
  Program* Find(uint32_t number, uint32_t version, std::optional<VersionRange>& known) const;
  // Finds the call's program and classifies the call. Returns null, and writes the reply and the reason, if no
  // procedure may execute the call.
  Program* Route(const CallHeader& header, CallContext& context, xdr::Decoder& arguments, xdr::Encoder& reply,
                 metrics::CallRefusal& why) const;

  void LogRefusal(const CallHeader& header, const Peer& peer, metrics::CallRefusal why) const;

  std::vector<Program*> programs_;
  ReplyCache* cache_ = nullptr;
  const TimerService* clock_ = nullptr;
  SecurityFlavor* gss_ = nullptr;
  RefusalLog* refusals_ = nullptr;
  Advice advice_;
};

}  // namespace penstock::rpc
