// The interface for calls to clients (RFC 8881 §20, RFC 7530 §15, RFC 7862 §16). CallbackSender implements it; tests of
// the operations record the calls instead.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/task.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/owed.h"
#include "protocol/nfs4_callback.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

struct HolderAttributes {
  std::optional<uint64_t> change;
  std::optional<uint64_t> size;
};

// All methods may be called on any thread, but not within State::Run().
class Callbacks : public Notices {
 public:
  // In minor version 0, when a client has set its callback address: finds out whether it answers there (CB_NULL).
  // Returns at once; Sessions::CanCall() tells the result.
  virtual void Probe(ClientId /*client*/) {}

  // In minor version 1 and later, when a client has given a connection to its session's backchannel: finds out whether
  // it answers there (CB_NULL). Returns at once. Until the result is known, the server calls the client over this
  // connection; if the client does not answer, it stops.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): whoever overrides it keeps the channel
  virtual void ProbeSession(const SessionId& /*session*/, std::shared_ptr<rpc::BackChannel> /*channel*/) {}

  // CB_RECALL. Returns at once. The call is repeated while the client's backchannel is down. It succeeds when the
  // client returns the delegation; after a lease time, the delegation is revoked (RFC 8881 §10.4.6). `given_by`: the
  // request that gave the delegation, whose reply may still be under way (RFC 8881 §2.10.6.3).
  virtual void Recall(ClientId client, const nfs4::stateid4& delegation, const FileHandle& file,
                      const std::optional<RequestName>& given_by) = 0;

  // CB_GETATTR to the holder of a write delegation (RFC 8881 §20.1). The attributes are empty if the client does not
  // answer in time. Resumes on `loop`, the caller's loop (null in a simulation).
  virtual Task<HolderAttributes> GetAttributes(Loop* loop, ClientId client, const FileHandle& file) = 0;

  // CB_NOTIFY_LOCK (RFC 8881 §20.11): a lock that the client waits for may be free now. Minor version 1 and later;
  // returns at once.
  virtual void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) = 0;

  // CB_RECALL_SLOT (RFC 8881 §20.8): a session is to use fewer slots. Minor version 1 and later; returns at once.
  virtual void RecallSlots(ClientId /*client*/, const SessionId& /*session*/, SlotId /*target_highest*/) {}

  // CB_OFFLOAD (RFC 7862 §16.1): an asynchronous COPY is done. Returns at once.
  virtual void OffloadDone(ClientId client, const FileHandle& file, const nfs4::stateid4& copy,
                           const nfs4::offload_info4& information) = 0;

  // Notices: sends the notices that State::Run() has taken from the tables.
  void Send(const Owed& owed) final {
    for (const auto& recall : owed.recalls) Recall(recall.client, recall.stateid, recall.file, recall.given_by);
    for (const auto& notice : owed.notices) NotifyLock(notice.client, notice.file, AsBytes(notice.owner));
    for (const auto& recall : owed.slot_recalls) RecallSlots(recall.client, recall.session, recall.target_highest);
  }
};

}  // namespace penstock::nfs::v4
