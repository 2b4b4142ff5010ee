// Sends calls to clients, and repeats calls that a client has not answered. This is the implementation of Callbacks for
// real clients.
//
// A call to a client with sessions occupies a slot of a session's backchannel until its fate is known. If a connection
// is lost before the reply, the sender repeats the call over the next connection that the client binds (RFC 8881
// §2.10.6.2); SEQUENCE tells the client to bind one. For a client without sessions, the server connects to the address
// that the client has given.
//
// A client that does not answer keeps calls under way for as long as the sender is patient. So the kinds of calls that
// many clients may cause at once have limits of their own.
//
// All state of the sender belongs to one loop, the home loop. A call over a backchannel switches to the connection's
// loop and comes back.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/loop.h"
#include "base/pauses.h"
#include "base/under_way.h"
#include "metrics/counter.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/callback/wire.h"
#include "nfs/v4/state/state.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

class CallbackSender : public Callbacks {
 public:
  // Connects to a client without sessions, on the home loop; the address has an endpoint. The channel protects calls
  // whose credential says so. The result is null if that fails.
  using Connect = std::function<Task<std::shared_ptr<rpc::Channel>>(const CallbackAddress&)>;

  struct Options {
    Duration again = std::chrono::seconds(1);           // the pause between two attempts of the same call
    Duration patience = std::chrono::seconds(90);       // for all attempts of one call: the lease time
    Duration for_attributes = std::chrono::seconds(3);  // for CB_GETATTR, since another client waits for the result
    size_t max_calls = 4096;  // calls under way; the sender drops further calls as if the client had not answered
    // The largest number of probes among the calls under way, of clients with and of clients without sessions. A client
    // may cause any number of probes; they must not displace calls.
    size_t max_probes = 1024;
    // The same for CB_RECALL_ANY: clients that do not answer it must not keep recalls from others.
    size_t max_recall_anys = 1024;
  };

  // `home` is the loop of `timers` and `buffers`; it is null in a simulation. All arguments outlive the sender.
  CallbackSender(State& state, Loop* home, TimerService& timers, BufferPool& buffers, Connect connect, Options options);

  // Stops the sender, on the home loop. The sender repeats no call any more, and waiting calls end. A call under way
  // ends with its connection and then comes back to the home loop, so the home loop must run as long as the loops of
  // the connections.
  void Stop();
  // Resumes when no call is under way any more: after Stop(), when the connections have been closed. On the home loop.
  Task<> Ended() { return under_way_.Ended(); }

  void Probe(ClientId client) override;
  void ProbeSession(const SessionId& session, std::shared_ptr<rpc::BackChannel> channel) override;
  void Recall(ClientId client, const nfs4::stateid4& delegation, const FileHandle& file,
              const std::optional<RequestName>& given_by) override;
  void RecallAny(const v4::RecallAny& recall) override;
  Task<HolderAttributes> GetAttributes(Loop* loop, ClientId client, const FileHandle& file, bool with_times) override;
  void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) override;
  void NotifyHost(const LockNotice& notice) override {
    if (notify_host_) notify_host_(notice);
  }
  // `notify` gets the notices to hosts, on any thread. Call this while no other thread uses the state.
  void NotifyHostsBy(std::function<void(const LockNotice&)> notify) { notify_host_ = std::move(notify); }
  void RecallSlots(ClientId client, const SessionId& session, SlotId target_highest) override;
  void RecallCredits(const CreditRecall& recall) override;
  Task<> OffloadDone(ClientId client, FileHandle file, nfs4::stateid4 copy, nfs4::offload_info4 information) override;

  // The number of calls under way, including the calls that wait for their next attempt.
  size_t under_way() const { return under_way_.count(); }

  // The attempts of calls with an operation, by operation and result. Any thread.
  static constexpr size_t kResults = 3;
  enum class AttemptResult : uint8_t { kOk, kError, kNoAnswer };
  struct Attempts {
    nfs4::nfs_cb_opnum4 operation;
    std::array<metrics::SharedCounter, kResults> results;
  };
  const auto& attempts() const { return attempts_; }

 private:
  enum class Failure : uint8_t {
    kNoClient,
    kNoPath,   // the client has no working connection at the moment
    kBusy,     // all slots of the client's backchannels are in use
    kRefused,  // the client did not execute the call, and would refuse it again
  };
  using Answer = Result<CallbackAnswer, Failure>;
  using Way = std::pair<SessionId, const rpc::BackChannel*>;
  using Delegation = std::pair<ClientId, std::array<std::byte, nfs4::NFS4_OTHER_SIZE>>;
  struct AddressPath {
    CallbackAddress address;
    std::shared_ptr<rpc::Channel> channel;
  };

  // Starts `task` on the home loop.
  void Run(Task<void> task);
  // All methods below run on the home loop.
  Task<void> Count(Task<void> task);
  bool IsOver(TimePoint end) const { return stopping_ || timers_.Now() >= end; }

  // Repeats the call until the client has answered, or until `wanted` returns false. `only`: use only the backchannel
  // of this session.
  using OnlySession = std::optional<SessionId>;
  Task<void> Deliver(ClientId client, CallbackOperation operation, std::function<bool()> wanted,
                     OnlySession only = std::nullopt);
  // The same until `end`. Returns the status of the operation; nothing if the client has not executed it.
  Task<std::optional<nfs4::nfsstat4>> DeliverUntil(TimePoint end, ClientId client, const CallbackOperation& operation,
                                                   std::function<bool()> wanted, OnlySession only = std::nullopt);
  Task<void> DeliverRecall(ClientId client, nfs4::stateid4 delegation, CallbackOperation operation);
  Task<void> DeliverRecallAny(v4::RecallAny recall);
  Task<Answer> CallOnce(ClientId client, const CallbackOperation& operation, TimePoint end,
                        OnlySession only = std::nullopt);
  Task<Answer> Attempt(ClientId client, const CallbackOperation& operation, TimePoint end,
                       OnlySession only = std::nullopt);

  // session_path.cc
  Task<void> DeliverProbe(SessionId session, std::shared_ptr<rpc::BackChannel> channel);
  Task<Answer> CallBySession(ClientId client, const CallbackOperation& operation, TimePoint end, OnlySession only);
  // Returns the connection for a call after its last one was lost; null if there is none now, and nothing if the
  // session has ended.
  using LookForWay = std::function<std::optional<std::shared_ptr<rpc::BackChannel>>(StateTables&)>;
  // Waits for that connection. Returns null if the session ends or the time is over.
  Task<std::shared_ptr<rpc::BackChannel>> NextWay(TimePoint end, LookForWay look);
  // bound_path.cc
  Task<void> DeliverCreditRecall(CreditRecall recall);
  Task<Answer> CallByBoundSession(ClientId client, const CallbackOperation& operation, TimePoint end);
  // address_path.cc
  Task<void> ProbeByAddress(ClientId client);
  Task<Answer> CallByAddress(ClientId client, CallbackAddress address, const CallbackOperation* operation);
  Task<std::shared_ptr<rpc::Channel>> ChannelTo(ClientId client, const CallbackAddress& address);

  State& state_;
  Loop* const home_;
  TimerService& timers_;
  BufferPool& buffers_;
  const Connect connect_;
  std::function<void(const LockNotice&)> notify_host_;
  const Options options_;

  std::atomic<bool> stopping_{false};
  std::array<Attempts, 7> attempts_{{{nfs4::OP_CB_GETATTR, {}},
                                     {nfs4::OP_CB_RECALL, {}},
                                     {nfs4::OP_CB_RECALL_ANY, {}},
                                     {nfs4::OP_CB_RECALL_SLOT, {}},
                                     {nfs4::OP_CB_NOTIFY_LOCK, {}},
                                     {nfs4::OP_CB_OFFLOAD, {}},
                                     {nfs4::OP_CB_CREDITRECALL, {}}}};
  // All members below belong to the home loop.
  UnderWay under_way_;
  Pauses pauses_;
  std::set<Delegation> recalled_;      // delegations whose recall is under way
  std::set<ClientId> asked_for_any_;   // clients whose CB_RECALL_ANY is under way
  std::set<Way> probed_;               // connections whose probe is under way; the probes hold the channels
  std::set<ClientId> probed_clients_;  // of version 4.0, whose probe is under way
  std::map<ClientId, AddressPath> addresses_;
  rpc::XidSequence xids_;
};

// Connects by TCP, without protection. If a call is not answered within `call_limit`, the call fails and its connection
// is closed. `stopping`, which may be null, ends all calls: it outlives the connection.
Task<std::shared_ptr<rpc::Channel>> ConnectByTcp(Loop& loop, SocketAddress client, Duration call_limit,
                                                 Cancellation* stopping);

}  // namespace penstock::nfs::v4
