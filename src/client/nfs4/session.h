// A session of NFSv4.1 with a server, kept alive and made again when it is lost: RFC 8881 §2.10, §8.3, §8.4. The
// machines are lease.h and slot_table.h; here are their calls.
#pragma once

#include <memory>
#include <string_view>

#include "client/nfs4/compound_caller.h"
#include "client/nfs4/lease.h"
#include "client/nfs4/slot_table.h"
#include "protocol/nfs4_callback.h"

namespace penstock::client::v4 {

// Of what a server may send over the back channel: it must fit into one Send over RDMA, header included (RFC 8267
// §6.5.2).
inline constexpr uint32_t kMaxBackMessage = 3 << 10;
inline constexpr uint32_t kBackSlots = 4;
// The largest reply that the server is asked to keep.
inline constexpr uint32_t kMaxCachedReply = 4 << 10;
// The callback program's number: any of those for temporary use (RFC 5531 §8.3).
inline constexpr uint32_t kCallbackProgram = nfs4::NFS4_CALLBACK;

// Calls wait for slots.
class Session final : public CompoundCaller {
 public:
  Session(TimerService& timers, rpc::Client& client, CallerOptions options);

  Task<void> Close() override;

  // Over a new connection, before anything else: the server may use it to call us (RFC 8881 §2.10.3.1).
  Task<void> Bind(rpc::Client& connection);

  const Lease& lease() const { return lease_; }
  nfs4::clientid4 client() const override { return lease_.client(); }
  uint64_t epoch() const override { return lease_.epoch(); }
  Duration lease_time() const override { return lease_.lease_time(); }
  SlotTable& slots() { return slots_; }
  // Those that wait for a slot look again.
  void HandleSlotsChanged() { slots_changed_.Notify(); }
  uint32_t max_request() const override { return max_request_; }
  uint32_t max_response() const override { return max_response_; }

 private:
  Task<Result<Executed>> Execute(Compound& compound, std::string_view what) override;
  struct Answer {
    rpc::Message message;
    Fate fate;  // what SEQUENCE says of it
  };
  // One COMPOUND in that slot, sent again until SEQUENCE is not put off any more. `decode(decoder, result of SEQUENCE)`.
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
  // Waits for a slot of that session; none where there is another by then, or is to be.
  Task<Result<std::optional<SlotUse>>> TakeSlot(uint64_t generation, std::string_view what);
  // Makes certain that a doubtful slot's request has been executed, or never will be.
  Task<Result<void>> Settle(SlotUse use, std::string_view what);

  TimePoint renewed_at() const override { return lease_.renewed_at(); }
  Task<void> RenewLease() override;
  void HandleLeaseTime(Duration time) override { lease_.set_lease_time(time); }
  Task<void> BindAgain();

  Lease lease_;
  SlotTable slots_{1};
  uint32_t max_request_ = 0;
  uint32_t max_response_ = 0;
  bool binding_ = false;
  TimePoint bind_again_{};  // not before, so that a server that never can call us is not asked with every call
  Signal slots_changed_;
};

}  // namespace penstock::client::v4
