// How a client of NFSv4 has its COMPOUNDs executed. From minor version 1 on it has a session with its server (session.h);
// in minor version 0 a client id and nothing more (client_id.h). Here is what both share: what is agreed with the server
// is agreed before the first call, and anew whenever it is lost; what was open is reclaimed then; the lease is renewed.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/signal.h"
#include "base/timer.h"
#include "client/mount.h"
#include "client/nfs4/operations.h"
#include "client/nfs4/state_owner.h"
#include "client/retries.h"
#include "rpc/client.h"

namespace penstock::client::v4 {

struct CallerOptions {
  uint32_t minor_version = 1;
  // Names this client for ever and everywhere, and this life of it (RFC 8881 §2.4).
  std::string owner;
  Verifier verifier{};
  uint32_t slots = 64;
  // The largest call and reply: a payload of 1 MiB, and what surrounds it.
  uint32_t max_message = (1 << 20) + (64 << 10);
  // How long an operation is tried that the server has put off.
  Duration give_up_after = std::chrono::minutes(10);
};

Error ErrorOf(nfs4::nfsstat4 status, std::string_view what);
Error ErrorOf(const rpc::Error& error, std::string_view what);

// What has become of something that was to be reclaimed. kLater: the session is lost again, and it is still to be reclaimed.
enum class Reclaimed : uint8_t { kYes, kNo, kLater };
inline Reclaimed ReclaimedBy(nfs4::nfsstat4 status) {
  using enum nfs4::nfsstat4;
  return status == NFS4_OK ? Reclaimed::kYes : status == NFS4ERR_DELAY ? Reclaimed::kLater : Reclaimed::kNo;
}

// Belongs to its loop. Calls may run side by side, as many as one likes.
class CompoundCaller {
 public:
  virtual ~CompoundCaller();
  CompoundCaller(const CompoundCaller&) = delete;
  CompoundCaller& operator=(const CompoundCaller&) = delete;

  // Called when what was open under an earlier client id may be reclaimed (RFC 8881 §8.4.2, RFC 7530 §9.6.2): before other
  // calls go on, and again with each restart of the server. Its calls are ReclaimCall().
  void set_reclaim(std::function<Task<void>()> reclaim) { reclaim_ = std::move(reclaim); }

  // Called with each reply in a session: whether the server says that it has revoked some of our state, though not all of
  // it, and still waits for us to find out what (RFC 8881 §8.3).
  void set_revoked(std::function<void(bool)> revoked) { revoked_ = std::move(revoked); }

  Task<Result<void>> Establish(std::string_view what);
  // Tells the server, where it can be told, that it may forget us. Required, unless Establish() has failed.
  virtual Task<void> Close() = 0;

  // Executes the COMPOUND that `build()` gives as a tuple of operations, once for each attempt: stateids may have
  // changed since. The reply's status is NFS4_OK. Waits while the server puts it off. `destination`: of the
  // DDP-eligible result. `observe(reply)` sees the reply of every attempt, whatever its status.
  template <class Build>
  auto Call(Build build, std::string_view what, Bytes destination = {}) {
    return Call(std::move(build), what, destination, [](const auto&) {});
  }
  template <class Build, class Observe>
  auto Call(Build build, std::string_view what, Bytes destination, Observe observe) {
    using Operations = decltype(build());
    return Attempts(std::move(build), what, destination, std::move(observe), std::type_identity<Operations>());
  }
  // From inside the reclaim function, whatever else is still to be agreed: executes what `build()` gives, and again while the
  // server puts it off. The reply's status may be any; NFS4ERR_DELAY says that there will be another time, because the session
  // is lost again.
  template <class Build>
  auto ReclaimCall(Build build, std::string_view what) {
    return ReclaimCall(std::move(build), what, [](const auto&) {});
  }
  template <class Build, class Observe>
  auto ReclaimCall(Build build, std::string_view what, Observe observe) {
    using Operations = decltype(build());
    return ReclaimAttempts(std::move(build), what, std::move(observe), std::type_identity<Operations>());
  }

  // Returns when nothing is left to be agreed with the server, for as far as we know.
  Task<Result<void>> Ready(std::string_view what);

  TimerService& timers() { return timers_; }
  uint32_t minor_version() const { return options_.minor_version; }
  // What to say of an owner's requests: RFC 8881 §8.2.5 wants zero where sessions count.
  nfs4::seqid4 SequenceOf(const StateOwner& owner) const { return minor_version() == 0 ? owner.sequence() : 0; }
  // An owner's request has no answer: where sessions count, they also find out what came of it.
  void HandleNoReply(StateOwner& owner) const {
    if (minor_version() == 0) owner.HandleNoReply();
  }
  virtual nfs4::clientid4 client() const = 0;
  // Counts client ids: state of an earlier one is gone.
  virtual uint64_t epoch() const = 0;
  // Whether the last call was answered.
  bool answered() const { return answered_; }
  virtual Duration lease_time() const = 0;
  // Whether the server cannot have ended our lease yet.
  bool holds_lease() const { return ready() && timers_.Now() < renewed_at() + lease_time(); }
  // Starts `task`, which Close() waits for.
  void SpawnBackground(Task<void> task);
  virtual uint32_t max_request() const { return options_.max_message; }
  virtual uint32_t max_response() const { return options_.max_message; }
  void set_lease_time(Duration time);

 protected:
  // All outlive it. `client` calls over connections that come and go.
  CompoundCaller(TimerService& timers, rpc::Client& client, CallerOptions options);

  // A COMPOUND to be executed, its types forgotten.
  struct Compound {
    uint32_t count;  // of its operations
    std::function<void(xdr::Encoder&)> encode;
    // Of the first so many results.
    std::function<bool(xdr::Decoder&, uint32_t)> decode;
    rpc::ReplyShape shape;
    bool must_be_cached;  // see kMustBeCached
    bool has_state_id;    // see kHasStateId
  };
  // Whether it was executed, or should be tried again.
  enum class Fate : uint8_t { kDone, kAgain, kLater };
  struct Executed {
    rpc::Message message;
    nfs4::nfsstat4 status = nfs4::nfsstat4::NFS4_OK;
    uint32_t count = 0;  // of the results
    Fate fate = Fate::kDone;
  };
  virtual Task<Result<Executed>> Execute(Compound& compound, std::string_view what) = 0;

  virtual bool ready() const = 0;
  // Where we are on the way to ready(), which is the last step: TakeStep() goes on from there, or back.
  virtual int step() const = 0;
  virtual Task<Result<void>> TakeStep(std::string_view what) = 0;
  bool recovering() const { return recovering_; }
  Task<void> Reclaim();
  void HandleRevoked(bool some) {
    if (revoked_) revoked_(some);
  }

  virtual TimePoint renewed_at() const = 0;
  virtual Task<void> RenewLease() = 0;
  virtual void HandleLeaseTime(Duration time) = 0;

  static void LogDelay(nfs4::nfsstat4 status, std::string_view what);
  // No task of ours begins any more; waits for those that are under way.
  Task<void> EndBackground();
  bool closing() const { return closing_; }

  // One COMPOUND of one operation, as it is. An error of the COMPOUND is an Error; of the operation, its results'.
  template <class Operation>
  Task<Result<CompoundReply<Operation>>> Bare(rpc::Client& client, Operation operation, std::string_view what);

  TimerService& timers_;
  rpc::Client& client_;
  const CallerOptions options_;
  bool answered_ = false;

 private:
  template <class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Once(const std::tuple<Arguments...>& operations, std::string_view what,
                                                 Bytes destination, Fate& fate);
  template <class Build, class Observe, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Attempts(Build build, std::string_view what, Bytes destination,
                                                     Observe observe, std::type_identity<std::tuple<Arguments...>>);
  template <class Build, class Observe, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> ReclaimAttempts(Build build, std::string_view what, Observe observe,
                                                            std::type_identity<std::tuple<Arguments...>>);
  // Does what is to be done until ready() is true, or nothing can be done.
  Task<Result<void>> Recover(std::string_view what);
  // When the lease must be renewed where nothing else has renewed it: after half of its time.
  TimePoint renew_at() const { return renewed_at() + lease_time() / 2; }
  void ArmRenewal();
  Task<void> Renew();

  std::function<Task<void>()> reclaim_;
  std::function<void(bool)> revoked_;
  bool recovering_ = false;
  bool closing_ = false;
  size_t background_ = 0;  // tasks of our own
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
      [&](xdr::Encoder& encoder) { EncodeCompound(encoder, options_.minor_version, operations); },
      ShapeOf(operations, {}), [&](xdr::Decoder& decoder) { return DecodeCompound(decoder, reply); });
  answered_ = message.has_value();
  if (!message) co_return std::unexpected(v4::ErrorOf(message.error(), what));
  reply.message = *std::move(message);
  // An error of the COMPOUND itself has no result; those of the operation are its caller's.
  if (reply.count == 0) co_return std::unexpected(v4::ErrorOf(reply.status, what));
  co_return reply;
}

template <class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::Once(const std::tuple<Arguments...>& operations,
                                                               std::string_view what, Bytes destination, Fate& fate) {
  CompoundReply<Arguments...> reply;
  Compound compound{
      .count = sizeof...(Arguments),
      .encode = [&operations](xdr::Encoder& encoder) { EncodeOperations(encoder, operations); },
      .decode = [&reply](xdr::Decoder& decoder, uint32_t count) { return DecodeResults(decoder, count, reply); },
      .shape = ShapeOf(operations, destination),
      .must_be_cached = kMustBeCached<Arguments...>,
      .has_state_id = kHasStateId<Arguments...>};
  auto executed = co_await Execute(compound, what);
  if (!executed) co_return std::unexpected(std::move(executed).error());
  reply.message = std::move(executed->message);
  reply.status = executed->status;
  reply.count = executed->count;
  fate = executed->fate;
  co_return reply;
}

template <class Build, class Observe, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::Attempts(Build build, std::string_view what,
                                                                   Bytes destination, Observe observe,
                                                                   std::type_identity<std::tuple<Arguments...>>) {
  Retries retries(timers_.Now() + options_.give_up_after);
  for (;;) {
    PENSTOCK_CO_CHECK(co_await Ready(what));
    const uint64_t before = epoch();
    const std::tuple<Arguments...> operations = build();
    Fate fate = Fate::kDone;
    auto reply = co_await Once(operations, what, destination, fate);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    observe(std::as_const(*reply));
    // Executed before a restart, and answered from what the server kept of it when all was reclaimed already, but for this
    // (RFC 8881 §2.10.6.5).
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
    co_await Sleep(timers_, retries.NextDelay());
  }
}

template <class Build, class Observe, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> CompoundCaller::ReclaimAttempts(
    Build build, std::string_view what, Observe observe, std::type_identity<std::tuple<Arguments...>>) {
  Retries retries(timers_.Now() + options_.give_up_after);
  for (;;) {
    const std::tuple<Arguments...> operations = build();
    Fate fate = Fate::kDone;
    auto reply = co_await Once(operations, what, {}, fate);
    if (!reply) co_return reply;
    observe(std::as_const(*reply));
    if (fate == Fate::kAgain) reply->status = nfs4::nfsstat4::NFS4ERR_DELAY;
    if (fate != Fate::kLater) co_return reply;
    if (timers_.Now() >= retries.give_up) co_return std::unexpected(v4::ErrorOf(reply->status, what));
    co_await Sleep(timers_, retries.NextDelay());
  }
}

}  // namespace penstock::client::v4
