// The calls that the server makes to its clients (RFC 8881 §20, RFC 7530 §15, RFC 7862 §16). The operations use this
// interface, so that tests of the operations need no client. CallbackSender implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/task.h"
#include "nfs/v4/state/files/delegated_times.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/owed.h"
#include "protocol/nfs4_callback.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

struct HolderAttributes {
  std::optional<uint64_t> change{};
  std::optional<uint64_t> size{};
  DelegatedTimes times{};
};

// Any thread may call the methods, but not within State::Run().
class Callbacks : public Notices {
 public:
  // For clients without sessions: tests by CB_NULL whether a client answers at the address that it has given. Returns
  // at once; Sessions::CanCall() has the result later.
  virtual void Probe(ClientId /*client*/) {}

  // For clients with sessions: tests by CB_NULL whether a client answers on a connection that it has given to the
  // backchannel of its session. Returns at once. Meanwhile, calls to the client may use the connection; they stop when
  // the test fails.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): overriding methods keep the channel
  virtual void ProbeSession(const SessionId& /*session*/, std::shared_ptr<rpc::BackChannel> /*channel*/) {}

  // CB_RECALL. Returns at once, and repeats the call while the client's backchannel is down. The recall ends when the
  // client returns the delegation, or when the server revokes it after a lease time (RFC 8881 §10.4.6). `given_by`: the
  // request that gave the delegation, whose reply the client may not have yet (RFC 8881 §2.10.6.3).
  virtual void Recall(ClientId client, const nfs4::stateid4& delegation, const FileHandle& file,
                      const std::optional<RequestName>& given_by) = 0;

  // CB_RECALL_ANY (RFC 8881 §20.6): asks a client to return delegations of its choice. Returns at once. Does nothing if
  // such a call to the client is under way.
  virtual void RecallAny(const v4::RecallAny& /*recall*/) {}

  // CB_GETATTR to the holder of a write delegation (RFC 8881 §20.1). The result is empty if the client does not answer
  // in time. `with_times`: asks for the times as well, if the holder is the authority for them (RFC 9754 §5). The task
  // resumes on `loop`, the loop of the caller (null in a simulation).
  virtual Task<HolderAttributes> GetAttributes(Loop* loop, ClientId client, const FileHandle& file,
                                               bool with_times) = 0;

  // CB_NOTIFY_LOCK (RFC 8881 §20.11): tells a client that a lock may be available now. For clients with sessions.
  // Returns at once.
  virtual void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) = 0;

  // Tells the lock manager of NLM that a lock may be available now for a process of a host. Returns at once.
  virtual void NotifyHost(const LockNotice& /*notice*/) {}

  // CB_RECALL_SLOT (RFC 8881 §20.8): tells a client to use fewer slots of a session. Returns at once.
  virtual void RecallSlots(ClientId /*client*/, const SessionId& /*session*/, SlotId /*target_highest*/) {}

  // CB_CREDITRECALL (draft-talpey-nfsv4-rdma-sess-01 §6.5): withdraws credits of the session's channels, and tells the
  // client to use fewer streamids. Returns at once; sess01::BoundSessions learns the answer.
  virtual void RecallCredits(const CreditRecall& /*recall*/) {}

  // CB_OFFLOAD (RFC 7862 §16.1): tells a client that an asynchronous COPY has ended. The task ends, on any thread, when
  // the client has answered or the call was given up.
  virtual Task<> OffloadDone(ClientId client, FileHandle file, nfs4::stateid4 copy,
                             nfs4::offload_info4 information) = 0;

  // Notices: sends the notices that State::Run() has taken from the tables.
  void Send(const Owed& owed) final {
    for (const auto& recall : owed.recalls) Recall(recall.client, recall.stateid, recall.file, recall.given_by);
    for (const auto& recall : owed.recall_anys) RecallAny(recall);
    for (const auto& notice : owed.notices) NotifyLock(notice.client, notice.file, AsBytes(notice.owner));
    for (const auto& notice : owed.host_notices) NotifyHost(notice);
    for (const auto& recall : owed.slot_recalls) RecallSlots(recall.client, recall.session, recall.target_highest);
    for (const auto& recall : owed.credit_recalls) RecallCredits(recall);
    for (const auto& closing : owed.closings) closing.way->CloseConnection(closing.why);
    for (const auto& wait : owed.ended_waits) sess01::RequestWait::End(wait);
  }
};

}  // namespace penstock::nfs::v4
