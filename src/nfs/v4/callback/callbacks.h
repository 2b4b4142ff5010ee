// What the server asks of its clients (RFC 8881 §20, RFC 7530 §15, RFC 7862 §16). An interface, so that the operations can be tested
// without a client; callback/ has the real one.
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
  // Minor version 0, when a client has said where it is to be called: whether it is there (CB_NULL). Returns at once; what comes
  // of it is Sessions::CanCall().
  virtual void Probe(ClientId /*client*/) {}

  // Minor version 1 and later, when a client has given a connection to its session's backchannel: whether it answers there
  // (CB_NULL). Returns at once. The client is called over it meanwhile, and no more when it is known that it does not answer.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): whoever overrides it keeps the channel
  virtual void ProbeSession(const SessionId& /*session*/, std::shared_ptr<rpc::BackChannel> /*channel*/) {}

  // CB_RECALL. Returns at once. Repeated while the client's back channel is down; what comes of it is seen when the delegation is returned, or
  // revoked because the lease time has passed since (RFC 8881 §10.4.6).
  // `given_by`: the request that the client has it from, whose reply may still be under way (RFC 8881 §2.10.6.3).
  virtual void Recall(ClientId client, const nfs4::stateid4& delegation, const FileHandle& file,
                      const std::optional<RequestName>& given_by) = 0;

  // CB_GETATTR to the holder of a write delegation (RFC 8881 §20.1). Nothing where the client does not answer in time.
  // Comes back on `loop`, the caller's (none in a simulation).
  virtual Task<HolderAttributes> GetAttributes(Loop* loop, ClientId client, const FileHandle& file) = 0;

  // CB_NOTIFY_LOCK (RFC 8881 §20.11): a blocked lock may be there to be had now. Minor version 1 and later; returns at once.
  virtual void NotifyLock(ClientId client, const FileHandle& file, ConstBytes owner) = 0;

  // CB_RECALL_SLOT (RFC 8881 §20.8): a session is to use fewer slots. Minor version 1 and later; returns at once.
  virtual void RecallSlots(ClientId /*client*/, const SessionId& /*session*/, SlotId /*target_highest*/) {}

  // CB_OFFLOAD (RFC 7862 §16.1): an asynchronous COPY is done. Returns at once.
  virtual void OffloadDone(ClientId client, const FileHandle& file, const nfs4::stateid4& copy,
                           const nfs4::offload_info4& information) = 0;

  // Notices: what State found to be due.
  void Send(const Owed& owed) final {
    for (const auto& recall : owed.recalls) Recall(recall.client, recall.stateid, recall.file, recall.given_by);
    for (const auto& notice : owed.notices) NotifyLock(notice.client, notice.file, AsBytes(notice.owner));
    for (const auto& recall : owed.slot_recalls) RecallSlots(recall.client, recall.session, recall.target_highest);
  }
};

}  // namespace penstock::nfs::v4
