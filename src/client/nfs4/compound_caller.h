// Executes the COMPOUNDs of a client of NFSv4. From minor version 1 on the client has a session (session.h), in minor
// version 0 only a client id (client_id.h). This base class has the parts that both share: it establishes the client id
// and session before the first call and again after a loss, lets the mount reclaim its state, and renews the lease.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/cancellation.h"
#include "base/pauses.h"
#include "base/signal.h"
#include "base/timer.h"
#include "client/call_security.h"
#include "client/mount.h"
#include "client/nfs4/dialect.h"
#include "client/nfs4/operations.h"
#include "client/nfs4/state_owner.h"
#include "client/retries.h"
#include "client/set_up.h"
#include "rpc/client.h"

namespace penstock::client::v4 {

struct CallerOptions {
  const Dialect* dialect = &kVersion41;
  // `owner` names this client, uniquely among all clients; `verifier` names this run of it (RFC 8881 §2.4).
  std::string owner;
  Verifier verifier{};
  uint32_t slots = 64;
  // The largest call and reply: a payload of 1 MiB and its surroundings.
  uint32_t max_message = (1 << 20) + (64 << 10);
  // Ask for a session whose replies survive a restart of the server (RFC 8881 §18.36.3, CREATE_SESSION4_FLAG_PERSIST).
  bool persist = true;
  // The protection of all calls; it outlives the caller. Null: nothing protects them. Under integrity and privacy only
  // the principal of this client may manage its client id, session and connections (SP4_MACH_CRED, RFC 8881 §2.10.8.3),
  // and under RPCSEC_GSS the server may protect its callbacks.
  CallSecurity* security = nullptr;
  // Whether the client answers calls of the server: ask for a session with a backchannel.
  bool callbacks = true;
  // How long the client repeats an operation that the server delays (NFS4ERR_DELAY).
  Duration give_up_after = std::chrono::minutes(10);
  // A client that has made no call for so long lets its lease expire, if it has no state.
  Duration rest_after = std::chrono::minutes(5);
  // Refuse COMPOUNDs that change files, or that open a file for writing.
  bool read_only = false;
  // When it is cancelled, all waits end, and all calls fail: the channel of the client must then fail, too. It outlives
  // the caller. Null: nothing ends it.
  Cancellation* ending = nullptr;
};

// The client sends and asks for payloads of this size, in octets, even if a server says that it takes less.
inline constexpr uint32_t kSmallestPayload = 512;
// The largest payload of a call or reply of `message` octets: the rest is for the parts around it.
inline uint32_t PayloadWithin(uint32_t message) {
  constexpr uint32_t kOverhead = 2 << 10;
  return std::max(message, kOverhead + kSmallestPayload) - kOverhead;
}

// Options with an owner that no other client has, now or later. The next run of the process, which has no state of this
// one, has another owner.
CallerOptions UniqueCaller(const Dialect& dialect);

Error ErrorOf(nfs4::nfsstat4 status, std::string_view what);
Error ErrorOf(const rpc::Error& error, std::string_view what);

// The result of a reclaim. kLater: the session is lost again, so the reclaim must be repeated.
enum class Reclaimed : uint8_t { kYes, kNo, kLater };
inline Reclaimed ReclaimedBy(nfs4::nfsstat4 status) {
  using enum nfs4::nfsstat4;
  return status == NFS4_OK ? Reclaimed::kYes : status == NFS4ERR_DELAY ? Reclaimed::kLater : Reclaimed::kNo;
}

// Belongs to its loop. Any number of calls may run at the same time.
class CompoundCaller {
 public:
  virtual ~CompoundCaller();
  CompoundCaller(const CompoundCaller&) = delete;
  CompoundCaller& operator=(const CompoundCaller&) = delete;

  // `reclaim` is called when the client may reclaim the state of an earlier client id (RFC 8881 §8.4.2, RFC 7530
  // §9.6.2): before other calls go on, and again after each restart of the server. It uses ReclaimCall() for its calls.
  void set_reclaim(std::function<Task<void>()> reclaim) { reclaim_ = std::move(reclaim); }

  // `revoked` is called with each reply in a session. Its argument says whether the server has revoked a part of the
  // client's state that the client has not yet found and freed (RFC 8881 §8.3).
  void set_revoked(std::function<void(bool)> revoked) { revoked_ = std::move(revoked); }

  // `moved` is called when the server says that a file system with state of the client has moved to another server
  // (SEQ4_STATUS_LEASE_MOVED, RFC 8881 §11.13.1; NFS4ERR_LEASE_MOVED, RFC 7530 §9.14.3).
  void set_lease_moved(std::function<void()> moved) { lease_moved_ = std::move(moved); }

  // `may_rest` returns whether the client has no state that an expired lease would cost, and is called when it has made
  // no call for `rest_after`. While it rests it sends nothing. The next call establishes what the server has forgotten.
  void set_may_rest(std::function<bool()> may_rest) { may_rest_ = std::move(may_rest); }

  // Establishes the client id and session, and starts to renew the lease.
  Task<Result<void>> Establish(std::string_view what);
  // Tells the server that it may forget this client, if the protocol has a way. Required, unless Establish() has
  // failed.
  virtual Task<void> Close() = 0;

  // Executes the COMPOUND that `build()` returns as a tuple of operations. Each attempt calls `build` again, because
  // stateids may have changed. Waits and tries again while the server puts the COMPOUND off. A reply that this returns
  // has the status NFS4_OK. `destination` is the place for the DDP-eligible result. `observe(reply)` sees the reply of
  // every attempt.
  template <class Build>
  auto Call(Build build, std::string_view what, Bytes destination = {}) {
    return Call(std::move(build), what, destination, [](const auto&) {});
  }
  template <class Build, class Observe>
  auto Call(Build build, std::string_view what, Bytes destination, Observe observe) {
    using Operations = decltype(build());
    return Attempts(std::move(build), what, destination, std::move(observe), true, std::type_identity<Operations>());
  }
  // Executes the COMPOUND once. The reply may have any status. It does not count as a use of the client.
  template <class Build>
  auto TryCall(Build build, std::string_view what) {
    using Operations = decltype(build());
    return Attempt(std::move(build), what, std::type_identity<Operations>());
  }
  // Renews the lease at once, so that the server tells what it has to say about it.
  Task<void> AskAboutLease() { return RenewLease(); }
  // For the reclaim function only: executes the COMPOUND although the client is not ready, and repeats it while the
  // server delays it. The reply may have any status. NFS4ERR_DELAY says that the session is lost again, so the
  // reclaim function will be called again.
  template <class Build>
  auto ReclaimCall(Build build, std::string_view what) {
    return ReclaimCall(std::move(build), what, [](const auto&) {});
  }
  template <class Build, class Observe>
  auto ReclaimCall(Build build, std::string_view what, Observe observe) {
    using Operations = decltype(build());
    return ReclaimAttempts(std::move(build), what, std::move(observe), std::type_identity<Operations>());
  }

  // Waits until the client id and session are established and all state is reclaimed, as far as the client knows.
  Task<Result<void>> Ready(std::string_view what);

  TimerService& timers() { return timers_; }
  const Dialect& dialect() const { return *options_.dialect; }
  // The seqid for a request of `owner`. It is zero if the dialect does not count the requests of an owner (RFC 8881
  // §8.2.5).
  nfs4::seqid4 SequenceOf(const StateOwner& owner) const {
    return dialect().counts_owner_seqids ? owner.sequence() : 0;
  }
  // Call it when a request of `owner` had no reply: the client does not know the owner's sequence number any more.
  void HandleNoReply(StateOwner& owner) const {
    if (dialect().counts_owner_seqids) owner.HandleNoReply();
  }
  virtual nfs4::clientid4 client() const = 0;
  // The number of the client id. State of an earlier epoch is lost.
  virtual uint64_t epoch() const = 0;
  // Whether the last call had a reply.
  bool answered() const { return answered_; }
  virtual Duration lease_time() const = 0;
  // Whether the server promises to keep its replies over a restart (RFC 8881 §2.10.6.5).
  virtual bool keeps_replies() const { return false; }
  // Whether the lease certainly has not expired at the server.
  bool holds_lease() const { return !ended() && ready() && timers_.Now() < renewed_at() + lease_time(); }
  // See CallerOptions.
  Cancellation* ending() const { return options_.ending; }
  bool ended() const { return IsCancelled(options_.ending); }
  // Starts `task`. Close() waits for its end.
  void SpawnBackground(Task<void> task);
  virtual uint32_t max_request() const { return options_.max_message; }
  virtual uint32_t max_response() const { return options_.max_message; }
  void set_lease_time(Duration time);

 protected:
  // `timers` and `client` outlive the caller. The connections of `client` may change.
  CompoundCaller(TimerService& timers, rpc::Client& client, CallerOptions options);

  // A COMPOUND without the types of its operations.
  struct Compound {
    uint32_t count;  // the number of operations
    CompoundParts& parts;
    rpc::ReplyShape shape;
    bool must_be_cached;  // see kMustBeCached
    bool has_state_id;    // see kHasStateId
    bool reclaims;        // sent by ReclaimCall()

    void Encode(xdr::Encoder& encoder) const { parts.Encode(encoder, {0, count}); }
    // Decodes the given number of results.
    bool Decode(xdr::Decoder& decoder, uint32_t results) const { return parts.Decode(decoder, {0, results}); }
  };
  // Whether the COMPOUND was executed, or should be sent again: at once (kAgain) or after a delay (kLater).
  enum class Fate : uint8_t { kDone, kAgain, kLater };
  struct Executed {
    rpc::Message message;
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    uint32_t count = 0;  // the number of results
    Fate fate = Fate::kDone;
    std::vector<rpc::Message> more_messages{};  // see CompoundReply
  };
  virtual Task<Result<Executed>> Execute(Compound& compound, std::string_view what) = 0;

  virtual bool ready() const = 0;
  // The current step on the way to ready(), which is the last step. TakeStep() leads to a later or an earlier step.
  virtual int step() const = 0;
  virtual Task<Result<void>> TakeStep(std::string_view what) = 0;
  // The status to report if the steps have not led to ready() in time.
  virtual nfs4::nfsstat4 obstacle() const { return nfs4::nfsstat4::NFS4ERR_DELAY; }
  bool recovering() const { return recovering_; }
  Task<void> Reclaim();
  void HandleRevoked(bool some) {
    if (revoked_) revoked_(some);
  }
  void HandleLeaseMoved() {
    if (lease_moved_ && !closing()) lease_moved_();
  }

  virtual TimePoint renewed_at() const = 0;
  virtual Task<void> RenewLease() = 0;
  // Call() for RenewLease(): it does not count as a use of the client.
  template <class Build>
  auto RenewalCall(Build build, std::string_view what) {
    using Operations = decltype(build());
    return Attempts(std::move(build), what, {}, [](const auto&) {}, false, std::type_identity<Operations>());
  }
  virtual void HandleLeaseTime(Duration time) = 0;

  static void LogDelay(nfs4::nfsstat4 status, std::string_view what);
  // Lets no background task begin any more and waits for the end of those that run.
  Task<void> EndBackground();
  bool closing() const { return closing_ || ended(); }

  // Executes a COMPOUND of one operation outside of a session. An error of the COMPOUND becomes an Error. An error of
  // the operation is in its results.
  template <class Operation>
  Task<Result<CompoundReply<Operation>>> Bare(rpc::Client& client, Operation operation, std::string_view what);

  TimerService& timers_;
  rpc::Client& client_;
  const CallerOptions options_;
  bool answered_ = false;

 private:
  template <class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Once(const std::tuple<Arguments...>& operations, std::string_view what,
                                                 Bytes destination, bool reclaims, Fate& fate);
  template <class Build, class Observe, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Attempts(Build build, std::string_view what, Bytes destination,
                                                     Observe observe, bool is_use,
                                                     std::type_identity<std::tuple<Arguments...>>);
  template <class Build, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Attempt(Build build, std::string_view what,
                                                    std::type_identity<std::tuple<Arguments...>>);
  template <class Build, class Observe, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> ReclaimAttempts(Build build, std::string_view what, Observe observe,
                                                            std::type_identity<std::tuple<Arguments...>>);
  // Takes steps until ready() is true or a step fails.
  Task<Result<void>> Recover(std::string_view what);
  // The time at which the client renews the lease, unless a call renews it earlier: after half of the lease time.
  TimePoint renew_at() const { return renewed_at() + lease_time() / 2; }
  void ArmRenewal();
  Task<void> Renew();
  bool MayRest() const;
  // Exists while a call is under way.
  class Use {
   public:
    explicit Use(CompoundCaller& caller) : caller_(caller) {
      ++caller_.uses_;
      if (std::exchange(caller_.rests_, false)) caller_.ArmRenewal();
    }
    ~Use() {
      --caller_.uses_;
      caller_.used_ = caller_.timers_.Now();
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    CompoundCaller& caller_;
  };

  std::function<Task<void>()> reclaim_;
  std::function<void(bool)> revoked_;
  std::function<void()> lease_moved_;
  std::function<bool()> may_rest_;
  size_t uses_ = 0;   // calls under way
  TimePoint used_{};  // when the last call ended
  bool rests_ = false;
  bool recovering_ = false;
  bool closing_ = false;
  size_t background_ = 0;  // the number of background tasks
  Signal recovered_;
  Signal background_changed_;
  std::unique_ptr<Timer> renewal_;
};

// ---- templates ----

template <class Operation>
Task<Result<CompoundReply<Operation>>> CompoundCaller::Bare(rpc::Client& client, Operation operation,
                                                            std::string_view what) {
  const std::tuple<Operation> operations(std::move(operation));
  CompoundReply<Operation> reply;
  auto message = co_await client.CallWith<nfs4::NFSPROC4_COMPOUND>(
      [&](xdr::Encoder& encoder) { EncodeCompound(encoder, dialect().minor_version, operations); },
      ShapeOf(operations, {}), [&](xdr::Decoder& decoder) { return DecodeCompound(decoder, reply); });
  if (&client == &client_) answered_ = message.has_value();
  if (!message) co_return std::unexpected(v4::ErrorOf(message.error(), what));
  reply.message = *std::move(message);
  // An error of the COMPOUND itself has no result. An error of the operation goes to the caller.
  if (reply.count == 0) co_return std::unexpected(v4::ErrorOf(reply.status, what));
  co_return reply;
}

template <class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::Once(const std::tuple<Arguments...>& operations,
                                                               std::string_view what, Bytes destination, bool reclaims,
                                                               Fate& fate) {
  CompoundReply<Arguments...> reply;
  TypedParts<Arguments...> parts(operations, destination, reply);
  Compound compound{.count = sizeof...(Arguments),
                    .parts = parts,
                    .shape = ShapeOf(operations, destination),
                    .must_be_cached = kMustBeCached<Arguments...>,
                    .has_state_id = kHasStateId<Arguments...>,
                    .reclaims = reclaims};
  auto executed = co_await Execute(compound, what);
  if (!executed) co_return std::unexpected(std::move(executed).error());
  reply.message = std::move(executed->message);
  reply.more_messages = std::move(executed->more_messages);
  reply.status = executed->status;
  reply.count = executed->count;
  fate = executed->fate;
  co_return reply;
}

template <class Build, class Observe, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::Attempts(Build build, std::string_view what,
                                                                   Bytes destination, Observe observe, bool is_use,
                                                                   std::type_identity<std::tuple<Arguments...>>) {
  std::optional<Use> use;
  if (is_use) use.emplace(*this);
  Retries retries(timers_.Now() + options_.give_up_after);
  for (;;) {
    PENSTOCK_CO_CHECK(co_await Ready(what));
    if (ended()) co_return std::unexpected(Closing(what));
    const uint64_t before = epoch();
    const std::tuple<Arguments...> operations = build();
    if (options_.read_only && NeedWriting(operations)) co_return std::unexpected(ReadOnly(what));
    Fate fate = Fate::kDone;
    auto reply = co_await Once(operations, what, destination, false, fate);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    observe(std::as_const(*reply));
    // The request was executed before a restart, and its reply came from the server's reply cache after the reclaim.
    // The reclaim does not include this change of state (RFC 8881 §2.10.6.5).
    if (kChangesState<Arguments...> && fate == Fate::kDone && reply->status == nfs4::nfsstat4::NFS4_OK &&
        epoch() != before) {
      fate = Fate::kAgain;
    }
    if (fate == Fate::kDone) {
      if (reply->status != nfs4::nfsstat4::NFS4_OK) co_return std::unexpected(v4::ErrorOf(reply->status, what));
      co_return *std::move(reply);
    }
    if (timers_.Now() >= retries.give_up) co_return std::unexpected(v4::ErrorOf(reply->status, what));
    if (fate == Fate::kAgain) continue;
    LogDelay(reply->status, what);
    co_await Pause(timers_, retries.NextDelay(), ending());
  }
}

template <class Build, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::Attempt(Build build, std::string_view what,
                                                                  std::type_identity<std::tuple<Arguments...>>) {
  PENSTOCK_CO_CHECK(co_await Ready(what));
  if (ended()) co_return std::unexpected(Closing(what));
  const std::tuple<Arguments...> operations = build();
  Fate fate = Fate::kDone;
  co_return co_await Once(operations, what, {}, false, fate);
}

template <class Build, class Observe, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::ReclaimAttempts(
    Build build, std::string_view what, Observe observe, std::type_identity<std::tuple<Arguments...>>) {
  Retries retries(timers_.Now() + options_.give_up_after);
  const uint64_t before = epoch();
  for (;;) {
    const std::tuple<Arguments...> operations = build();
    Fate fate = Fate::kDone;
    auto reply = co_await Once(operations, what, {}, true, fate);
    if (!reply) co_return reply;
    observe(std::as_const(*reply));
    // The server has restarted again: what it says of its last run does not count.
    if (fate == Fate::kAgain || epoch() != before) reply->status = nfs4::nfsstat4::NFS4ERR_DELAY;
    if (fate != Fate::kLater || epoch() != before) co_return reply;
    if (timers_.Now() >= retries.give_up) co_return std::unexpected(v4::ErrorOf(reply->status, what));
    co_await Pause(timers_, retries.NextDelay(), ending());
  }
}

}  // namespace penstock::client::v4
