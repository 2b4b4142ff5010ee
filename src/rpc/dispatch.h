// From a call's bytes to the procedure that it names, and back to a reply: RFC 5531 §9, its errors included.
#pragma once

#include <optional>
#include <vector>

#include "rpc/auth.h"
#include "rpc/header.h"
#include "rpc/reply_cache.h"
#include "rpc/security_flavor.h"
#include "rpc/transport.h"

namespace penstock::rpc {

// One call, for the procedure that executes it.
struct CallContext {
  const Peer& peer;
  Xid xid{};
  uint32_t version = 0;
  uint32_t procedure = 0;
  Credential credential{};
  // Set by a program that finds only while it executes the call that the credential will not do (what is called has rules
  // of its own): the call is then denied for this reason, and its results are discarded.
  AuthStatus denial = AuthStatus::AUTH_OK;
  // How the reply is remembered, by the procedure's number; kNothing for an idempotent one. A program may lower it where it finds
  // while it executes the call that this one was harmless, or no more than a WRITE.
  Keep keep = Keep::kNothing;
  // Octets by which the call was longer than what its arguments are read from, and by which the reply may become longer than what
  // is written: a flavor has sealed the one, and is going to seal the other. Programs with agreed limits count them (RFC 8881 §18.36.3).
  size_t call_overhead = 0;
  size_t reply_overhead = 0;
};

// An RPC program of any number of versions; several of them, of different versions, may have the same number. Shared by all loops.
class Program {
 public:
  virtual ~Program() = default;
  virtual uint32_t number() const = 0;
  virtual VersionRange versions() const = 0;

  // False where a second execution of the same call would give another result: then its reply is remembered. A reply that
  // is remembered must own its memory.
  virtual bool IsIdempotent(uint32_t version, uint32_t procedure) const = 0;

  // True where an idempotent call must not be executed late, when its client has the reply of a second execution already and
  // has gone on: it would undo what came after. Its reply is remembered as well, in a quota of its own (Keep::kWrite).
  virtual bool IsHarmfulLate(uint32_t /*version*/, uint32_t /*procedure*/) const { return false; }

  // Whether the program itself meets duplicates of a call, given its arguments (the reduced stream), as the sessions of NFSv4.1 do: then
  // nothing is remembered of it here.
  virtual bool MeetsDuplicates(uint32_t /*version*/, uint32_t /*procedure*/, ConstBytes /*arguments*/) const {
    return false;
  }

  // False where an item beside the arguments stands where nothing DDP-eligible belongs, so that the call must not be processed
  // (RFC 8166 §6.1): it is answered with GARBAGE_ARGS. For programs that act before they have decoded all arguments; where Call()
  // decodes them first, it finds out itself. Asked only where there are items.
  virtual bool PlacesItems(uint32_t /*version*/, uint32_t /*procedure*/, xdr::Decoder& /*arguments*/) const {
    return true;
  }

  // Whether a procedure takes calls of this flavor; the call is answered AUTH_TOOWEAK where not. Not asked for procedure 0,
  // which never requires authentication (RFC 5531 §12.1).
  virtual bool AcceptsFlavor(AuthFlavor /*flavor*/, uint32_t /*version*/, uint32_t /*procedure*/) const { return true; }

  // Executes a call of one of versions(). Any status but SUCCESS discards the results, and is one of PROC_UNAVAIL,
  // GARBAGE_ARGS and SYSTEM_ERR. See Handle() in rpc/handle.h.
  virtual Task<AcceptStatus> Call(CallContext& context, xdr::Decoder& arguments, xdr::Encoder& results) = 0;
};

class Dispatcher : public CallHandler {
 public:
  // Without a reply cache: for programs whose procedures are all idempotent, or know duplicates themselves.
  Dispatcher() = default;
  // Both outlive the dispatcher; the clock may be asked on any thread.
  Dispatcher(ReplyCache& cache, const TimerService& clock) : cache_(&cache), clock_(&clock) {}

  // Before the first call. The program outlives the dispatcher. No two programs of the same number have a version in common.
  void Add(Program& program);
  // Before the first call: RPCSEC_GSS is offered. It outlives the dispatcher.
  void Offer(SecurityFlavor& gss) { gss_ = &gss; }

  // `peer.buffers` must be set.
  Task<Message> HandleCall(Message call, const Peer& peer) override;

 private:
  Task<Message> HandleSecured(Message call, const Peer& peer);
  // `message` is a call, or the arguments of one, where a flavor has admitted it and taken its header off.
  struct Secured {
    const CallHeader& header;
    const Credential& credential;
    size_t call_overhead;
    size_t reply_overhead;
  };
  Task<Message> Execute(Message message, const Peer& peer, const Secured* secured);
  // Null where there is none; `known` are then the versions that there are, if any.
  Program* Find(uint32_t number, uint32_t version, std::optional<VersionRange>& known) const;
  // Writes the reply to a call that no procedure gets to see; null then.
  Program* Route(const CallHeader& header, CallContext& context, xdr::Encoder& reply) const;

  std::vector<Program*> programs_;
  ReplyCache* cache_ = nullptr;
  const TimerService* clock_ = nullptr;
  SecurityFlavor* gss_ = nullptr;
};

}  // namespace penstock::rpc
