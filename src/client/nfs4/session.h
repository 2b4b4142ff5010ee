// A session of NFSv4.1 with a server, kept alive and made again when it is lost: RFC 8881 §2.10, §8.3, §8.4. The
// machines are lease.h and slot_table.h; here are their calls.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/signal.h"
#include "base/timer.h"
#include "client/mount.h"
#include "client/nfs4/lease.h"
#include "client/nfs4/operations.h"
#include "client/nfs4/slot_table.h"
#include "protocol/nfs4_callback.h"
#include "rpc/client.h"

namespace penstock::client::v4 {

struct SessionOptions {
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

// Of what a server may send over the back channel: it must fit into one Send over RDMA, header included (RFC 8267
// §6.5.2).
inline constexpr uint32_t kMaxBackMessage = 3 << 10;
inline constexpr uint32_t kBackSlots = 4;
// The largest reply that the server is asked to keep.
inline constexpr uint32_t kMaxCachedReply = 4 << 10;
// The callback program's number: any of those for temporary use (RFC 5531 §8.3).
inline constexpr uint32_t kCallbackProgram = nfs4::NFS4_CALLBACK;

// What results of this are kept by the server until the slot is used again: those that must not be executed twice. All
// others are executed again should their reply be lost (RFC 8881 §2.10.6.1.3).
template <class... Arguments>
inline constexpr bool kMustBeCached =
    (... || (std::same_as<Arguments, nfs4::OPEN4args> || std::same_as<Arguments, nfs4::CLOSE4args> ||
             std::same_as<Arguments, nfs4::REMOVE4args> || std::same_as<Arguments, nfs4::DELEGRETURN4args> ||
             std::same_as<Arguments, nfs4::RECLAIM_COMPLETE4args>));

// Belongs to its loop. Calls may run side by side, as many as one likes: they wait for slots.
class Session {
 public:
  // All outlive the session. `client` calls over connections that come and go.
  Session(TimerService& timers, rpc::Client& client, SessionOptions options);
  // Requires Close(), or that Establish() has failed.
  ~Session();

  // Called when what was open under an earlier client id may be reclaimed (RFC 8881 §8.4.2): before other calls go on,
  // and again with each restart of the server. Its calls are ReclaimCall().
  void set_reclaim(std::function<Task<void>()> reclaim) { reclaim_ = std::move(reclaim); }

  Task<Result<void>> Establish(std::string_view what);
  // Tells the server that it may forget us.
  Task<void> Close();

  // Over a new connection, before anything else: the server may use it to call us (RFC 8881 §2.10.3.1).
  Task<void> Bind(rpc::Client& connection);

  // Executes the COMPOUND that `build()` gives as a tuple of operations, once for each attempt: stateids may have
  // changed since. The reply's status is NFS4_OK. Waits while the server puts it off. `destination`: of the
  // DDP-eligible result.
  template <class Build>
  auto Call(Build build, std::string_view what, Bytes destination = {}) {
    using Operations = decltype(build());
    return Attempts(std::move(build), what, destination, std::type_identity<Operations>());
  }
  // From inside the reclaim function: one attempt, in the session that is being set up.
  template <class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> ReclaimCall(std::tuple<Arguments...> operations, std::string_view what);

  const Lease& lease() const { return lease_; }
  SlotTable& slots() { return slots_; }
  // Those that wait for a slot look again.
  void HandleSlotsChanged() { slots_changed_.Notify(); }
  uint32_t max_request() const { return max_request_; }
  uint32_t max_response() const { return max_response_; }
  void set_lease_time(Duration time);

 private:
  enum class Fate : uint8_t { kDone, kAgain, kLater };
  template <class Build, class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Attempts(Build build, std::string_view what, Bytes destination,
                                                     std::type_identity<std::tuple<Arguments...>>);

  // One COMPOUND without SEQUENCE.
  template <class Operation>
  Task<Result<CompoundReply<Operation>>> Bare(rpc::Client& client, Operation operation, std::string_view what);
  // One with it, in a slot. `fate`: whether it was executed.
  template <class... Arguments>
  Task<Result<CompoundReply<Arguments...>>> Sequenced(const std::tuple<Arguments...>& operations, std::string_view what,
                                                      Bytes destination, Fate& fate);
  Fate HandleSequenceReply(SlotUse use, uint64_t generation, TimePoint sent, const nfs4::SEQUENCE4res& result);
  void HandleNoReply(SlotUse use, uint64_t generation);

  Task<Result<void>> Ready(std::string_view what);
  Task<Result<void>> Recover(std::string_view what);
  Task<Result<void>> ExchangeId(std::string_view what);
  Task<Result<void>> CreateSession(std::string_view what);
  Task<Result<void>> ReclaimComplete(std::string_view what);
  Task<Result<SlotUse>> TakeSlot(std::string_view what);
  // Makes certain that a doubtful slot's request has been executed, or never will be.
  Task<Result<void>> Settle(SlotUse use, std::string_view what);

  void ArmRenewal();
  Task<void> Renew();
  Task<void> BindAgain();

  TimerService& timers_;
  rpc::Client& client_;
  const SessionOptions options_;
  Lease lease_;
  SlotTable slots_{1};
  uint32_t max_request_ = 0;
  uint32_t max_response_ = 0;
  std::function<Task<void>()> reclaim_;
  bool recovering_ = false;
  bool binding_ = false;
  TimePoint bind_again_{};  // not before, so that a server that never can call us is not asked with every call
  bool closing_ = false;
  bool answered_ = false;  // the last call was
  size_t background_ = 0;  // tasks of our own
  Signal recovered_;
  Signal slots_changed_;
  Signal background_changed_;
  std::unique_ptr<Timer> renewal_;
};

Error ErrorOf(nfs4::nfsstat4 status, std::string_view what);
Error ErrorOf(const rpc::Error& error, std::string_view what);

// ---- templates ----

template <class Operation>
Task<Result<CompoundReply<Operation>>> Session::Bare(rpc::Client& client, Operation operation, std::string_view what) {
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
Task<Result<CompoundReply<Arguments...>>> Session::Sequenced(const std::tuple<Arguments...>& operations,
                                                             std::string_view what, Bytes destination, Fate& fate) {
  fate = Fate::kDone;
  PENSTOCK_CO_TRY(const SlotUse use, co_await TakeSlot(what));
  const uint64_t generation = lease_.generation();
  const TimePoint sent = timers_.Now();
  const auto whole =
      std::tuple_cat(std::make_tuple(nfs4::SEQUENCE4args{lease_.session(), use.sequence, use.slot,
                                                         slots_.highest_in_use(), kMustBeCached<Arguments...>}),
                     operations);
  CompoundReply<nfs4::SEQUENCE4args, Arguments...> reply;
  auto message = co_await client_.CallWith<nfs4::NFSPROC4_COMPOUND>(
      [&](xdr::Encoder& encoder) { EncodeCompound(encoder, options_.minor_version, whole); },
      ShapeOf(whole, destination), [&](xdr::Decoder& decoder) { return DecodeCompound(decoder, reply); });
  answered_ = message.has_value();
  if (!message || reply.count == 0) {
    HandleNoReply(use, generation);
    co_return std::unexpected(message ? v4::ErrorOf(reply.status, what) : v4::ErrorOf(message.error(), what));
  }
  fate = HandleSequenceReply(use, generation, sent, std::get<0>(reply.results));
  CompoundReply<Arguments...> rest;
  rest.message = *std::move(message);
  rest.status = reply.status;
  rest.count = reply.count - 1;
  std::apply([&](auto&, auto&... results) { rest.results = std::make_tuple(std::move(results)...); }, reply.results);
  if (fate == Fate::kDone && rest.status != nfs4::nfsstat4::NFS4_OK) {
    lease_.HandleStatus(rest.status, generation);
    if (!lease_.ready() && generation == lease_.generation() && !recovering_) fate = Fate::kAgain;
    // RFC 8881 §15.1.1.3, §15.1.9.2
    if (rest.status == nfs4::nfsstat4::NFS4ERR_DELAY || rest.status == nfs4::nfsstat4::NFS4ERR_GRACE)
      fate = Fate::kLater;
  }
  co_return rest;
}

template <class Build, class... Arguments>
Task<Result<CompoundReply<Arguments...>>> Session::Attempts(Build build, std::string_view what, Bytes destination,
                                                            std::type_identity<std::tuple<Arguments...>>) {
  const TimePoint give_up = timers_.Now() + options_.give_up_after;
  Duration delay = std::chrono::milliseconds(20);
  for (;;) {
    PENSTOCK_CO_CHECK(co_await Ready(what));
    const std::tuple<Arguments...> operations = build();
    Fate fate = Fate::kDone;
    auto reply = co_await Sequenced(operations, what, destination, fate);
    if (!reply) co_return std::unexpected(std::move(reply).error());
    if (fate == Fate::kDone) {
      if (reply->status != nfs4::nfsstat4::NFS4_OK) co_return std::unexpected(v4::ErrorOf(reply->status, what));
      co_return *std::move(reply);
    }
    if (timers_.Now() >= give_up) co_return std::unexpected(v4::ErrorOf(reply->status, what));
    if (fate == Fate::kAgain) continue;
    co_await Sleep(timers_, delay);
    delay = std::min<Duration>(2 * delay, std::chrono::seconds(5));
  }
}

template <class... Arguments>
Task<Result<CompoundReply<Arguments...>>> Session::ReclaimCall(std::tuple<Arguments...> operations,
                                                               std::string_view what) {
  Fate fate = Fate::kDone;
  auto reply = co_await Sequenced(operations, what, {}, fate);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  if (reply->status != nfs4::nfsstat4::NFS4_OK || fate != Fate::kDone) {
    co_return std::unexpected(v4::ErrorOf(reply->status, what));
  }
  co_return *std::move(reply);
}

}  // namespace penstock::client::v4
