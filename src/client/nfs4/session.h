// A session of NFSv4.1 with a server. Session keeps its lease and creates the session again if it is lost (RFC 8881
// §2.10, §8.3, §8.4). Lease and SlotTable decide on the next step; this class makes their calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "client/nfs4/compound_caller.h"
#include "client/nfs4/lease.h"
#include "client/nfs4/slot_table.h"
#include "protocol/nfs4_callback.h"

namespace penstock::client::v4 {

// The largest message on the back channel. With its header it must fit into one Send over RDMA (RFC 8267 §6.5.2).
inline constexpr uint32_t kMaxBackMessage = 3 << 10;
inline constexpr uint32_t kBackSlots = 4;
// The largest reply that the client asks the server to keep.
inline constexpr uint32_t kMaxCachedReply = 4 << 10;
// The number of the callback program. Any number for transient use would do (RFC 5531 §8.3).
inline constexpr uint32_t kCallbackProgram = nfs4::NFS4_CALLBACK;

// Two connections with equal ones lead to one server, which lets them share a session (RFC 8881 §2.10.5).
struct ServerIdentity {
  std::string major;
  uint64_t minor = 0;
  std::string scope;
  bool operator==(const ServerIdentity&) const = default;
};

// A call waits until a slot is free.
class Session final : public CompoundCaller {
 public:
  Session(TimerService& timers, rpc::Client& client, CallerOptions options);

  Task<void> Close() override;

  // Asks the server at the other end of `connection` who it is, by EXCHANGE_ID with an owner that has no session. The
  // server may keep a record of that owner until a lease time has passed. Returns nothing without an answer, and if the
  // server delays it for more than two seconds. `cancellation` ends these.
  Task<std::optional<ServerIdentity>> Identify(rpc::Client& connection, Cancellation* cancellation);
  // Binds a new connection to the session before other calls use it, so that the server can call back over it
  // (RFC 8881 §2.10.3.1). Returns false if the server refuses that, or does not answer.
  Task<bool> Bind(rpc::Client& connection);
  // `bind_all` binds all connections of the client by Bind(). It is called when the session was made, and when one of
  // them turns out not to be bound. Without it, the client has one connection.
  void set_bind_all(std::function<Task<void>(bool session_is_new)> bind_all) { bind_all_ = std::move(bind_all); }

  const Lease& lease() const { return lease_; }
  nfs4::clientid4 client() const override { return lease_.client(); }
  uint64_t epoch() const override { return lease_.epoch(); }
  Duration lease_time() const override { return lease_.lease_time(); }
  bool keeps_replies() const override { return keeps_replies_; }
  SlotTable& slots() { return slots_; }
  // Wakes the calls that wait for a slot.
  void HandleSlotsChanged() { slots_changed_.Notify(); }
  uint32_t max_request() const override { return max_request_; }
  uint32_t max_response() const override { return max_response_; }

 private:
  Task<Result<Executed>> Execute(Compound& compound, std::string_view what) override;
  struct Answer {
    rpc::Message message;
    Fate fate;  // follows from the status of SEQUENCE
  };
  // Sends a COMPOUND in a slot, and sends it again while SEQUENCE gives NFS4ERR_DELAY. `decode(decoder, result)`
  // decodes the reply and sets the result of SEQUENCE.
  template <class Encode, class Decode>
  Task<Result<Answer>> CallInSlot(SlotUse use, uint64_t generation, rpc::ReplyShape shape, Encode encode, Decode decode,
                                  std::string_view what);
  Fate HandleSequenceReply(SlotUse use, uint64_t generation, TimePoint sent, const nfs4::SEQUENCE4res& result);
  void HandleNoReply(SlotUse use, uint64_t generation);

  bool ready() const override { return lease_.ready(); }
  int step() const override { return static_cast<int>(lease_.next()); }
  Task<Result<void>> TakeStep(std::string_view what) override;
  Task<Result<void>> ExchangeId(std::string_view what);
  Task<void> DestroySession(std::string_view what);
  Task<Result<void>> CreateSession(std::string_view what);
  Task<Result<void>> ReclaimComplete(std::string_view what);
  // Waits for a slot of the session `generation`. Returns nothing if that session is lost or must be replaced.
  Task<Result<std::optional<SlotUse>>> TakeSlot(uint64_t generation, std::string_view what);
  // Makes sure that the request of a doubtful slot either has been executed or never will be.
  Task<Result<void>> Settle(SlotUse use, std::string_view what);

  TimePoint renewed_at() const override { return lease_.renewed_at(); }
  Task<void> RenewLease() override;
  void HandleLeaseTime(Duration time) override { lease_.set_lease_time(time); }
  Task<void> BindAgain();
  Task<void> BindAll();
  // The context under which the server may call back; nothing if calls have none.
  std::optional<CallSecurity::CallbackContext> OfferCallbackContext() const;
  using SecurityParameters = decltype(nfs4::CREATE_SESSION4args::csa_sec_parms);
  static SecurityParameters ParametersFor(const std::optional<CallSecurity::CallbackContext>& offer);
  // Whether calls have another context than the server's callbacks.
  bool NeedsCallbackProtection() const;
  Task<void> ProtectCallbacks();

  std::function<Task<void>(bool)> bind_all_;
  Lease lease_;
  SlotTable slots_{1};
  uint32_t max_request_ = 0;
  uint32_t max_response_ = 0;
  bool keeps_replies_ = false;
  bool binding_ = false;
  bool must_bind_ = false;  // the server accepts requests only over connections that were bound (SP4_MACH_CRED)
  bool protecting_ = false;
  bool asks_for_protection_ = true;  // until the server says that it cannot protect the state of this client
  TimePoint protect_again_{};        // the next attempt of ProtectCallbacks()
  uint64_t callback_context_ = 0;    // the number of the context that the server has for its callbacks; 0: none
  TimePoint bind_again_{};           // the next attempt to bind; limits the attempts if the server can never call back
  Signal slots_changed_;
};

}  // namespace penstock::client::v4
