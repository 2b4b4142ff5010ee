// The real Callbacks: calls the clients, and calls them again.
//
// A call to a client of minor version 1 or later occupies a slot of a session's backchannel until it is known what
// became of it: where a connection is lost before the answer, the same call goes out over the next one that the client
// binds (RFC 8881 §2.10.6.2), and SEQUENCE tells the client to bind one. A client of minor version 0 is called over a
// connection that we make to where it listens. Everything here lives on one loop, its home; calls over a backchannel go
// to that connection's loop and come back.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/address.h"
#include "base/loop.h"
#include "nfs/v4/callback/callbacks.h"
#include "nfs/v4/callback/wire.h"
#include "nfs/v4/state/state.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

class CallbackSender : public Callbacks {
 public:
  // Makes a connection to a client of minor version 0; null where that fails. On the home loop.
  using Connect = std::function<Task<std::shared_ptr<rpc::Channel>>(SocketAddress)>;

  struct Options {
    Duration again = std::chrono::seconds(1);           // between two tries of the same call
    Duration patience = std::chrono::seconds(90);       // for all tries of one call: the lease
    Duration for_attributes = std::chrono::seconds(3);  // CB_GETATTR, for which somebody waits
    size_t max_calls = 4096;  // under way; more are dropped, as if the client had not answered
    // Of these. A client can ask for as many probes as it likes: they are not to keep calls that matter from being made.
    size_t max_probes = 1024;
  };

  // `home` is the loop of `timers` and `buffers`; null in a simulation. All outlive the caller.
  CallbackSender(State& state, Loop* home, TimerService& timers, BufferPool& buffers, Connect connect, Options options);

  // On the home loop: no call is tried again, and those that wait for that end. What is under way ends with its
  // connection, and comes back to the home loop: that is to run as long as the loops of the connections.
  void Stop();

  void Probe(ClientId client) override;
  void ProbeSession(const SessionId& session, std::shared_ptr<rpc::BackChannel> channel) override;
  void Recall(ClientId client, const nfs4::stateid4& delegation, const FileHandle& file,
              const std::optional<RequestName>& given_by) override;
  Task<HolderAttributes> GetAttributes(Loop* loop, ClientId client, const FileHandle& file) override;
  void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) override;
  void RecallSlots(ClientId client, const SessionId& session, SlotId target_highest) override;
  void OffloadDone(ClientId client, const FileHandle& file, const nfs4::stateid4& copy,
                   const nfs4::offload_info4& information) override;

  // Calls under way, those that wait to be tried again included.
  size_t under_way() const { return under_way_; }

 private:
  enum class Failure : uint8_t {
    kNoClient,
    kNoPath,   // nothing to call it over, at the moment
    kBusy,     // all slots of its backchannels are taken
    kRefused,  // the client did not execute the call, and would not do so later
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
  // On the home loop, from here on.
  Task<void> Count(Task<void> task);
  Task<void> Pause(Duration duration);
  bool IsOver(TimePoint end) const { return stopping_ || timers_.Now() >= end; }

  // Until the client has answered, or nobody wants to know any more. `only`: on the backchannel of that session.
  using OnlySession = std::optional<SessionId>;
  Task<void> Deliver(ClientId client, CallbackOperation operation, std::function<bool()> wanted,
                     OnlySession only = std::nullopt);
  Task<void> DeliverRecall(ClientId client, nfs4::stateid4 delegation, CallbackOperation operation);
  Task<Answer> CallOnce(ClientId client, const CallbackOperation& operation, TimePoint end,
                        OnlySession only = std::nullopt);

  // session_path.cc
  Task<void> DeliverProbe(SessionId session, std::shared_ptr<rpc::BackChannel> channel);
  Task<Answer> CallBySession(ClientId client, const CallbackOperation& operation, TimePoint end, OnlySession only);
  Task<std::shared_ptr<rpc::BackChannel>> NextChannel(const SessionId& session, TimePoint end);
  // address_path.cc
  Task<Answer> CallByAddress(ClientId client, CallbackAddress address, const CallbackOperation* operation);
  Task<std::shared_ptr<rpc::Channel>> ChannelTo(ClientId client, const CallbackAddress& address);

  State& state_;
  Loop* const home_;
  TimerService& timers_;
  BufferPool& buffers_;
  const Connect connect_;
  const Options options_;

  std::atomic<bool> stopping_{false};
  // Of the home loop, all of these.
  size_t under_way_ = 0;
  std::vector<OneShot<>*> pauses_;
  std::set<Delegation> recalled_;  // being recalled now
  std::set<Way> probed_;           // being probed now; the probes hold the channels
  std::map<ClientId, AddressPath> addresses_;
  rpc::XidSequence xids_;
};

// Connects by TCP. A call that is not answered in `call_limit` is lost, and its connection with it.
CallbackSender::Connect ConnectByTcp(Loop& loop, Duration call_limit);

}  // namespace penstock::nfs::v4
