// The notices that a change of the state owes to clients and to other requests, and the interface that sends them.
//
// An operation that ends a lock may owe another client a lock notice; an operation that meets a delegation owes its
// holder a recall. In a session of 2004, the end of a request may let another one go on. The tables only queue these.
// State::Run() takes them when the operation is done and passes them to Notices once the lock is released.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/sess01/request_wait.h"
#include "protocol/nfs4_types.h"
#include "rpc/transport.h"

namespace penstock::nfs::v4 {

// CB_RECALL: the client is to return a delegation.
struct DelegationRecall {
  ClientId client;
  nfs4::stateid4 stateid;
  FileHandle file;                      // the handle that the client knows the file by
  std::optional<RequestName> given_by;  // see Callbacks::Recall
};

// CB_RECALL_ANY: the client is to return delegations of its choice until it has at most `keep`.
struct RecallAny {
  ClientId client;
  uint32_t keep = 0;
  bool operator==(const RecallAny&) const = default;
};

// CB_NOTIFY_LOCK: a lock that the client, or a process of a host (LockHosts), waits for may be free now.
struct LockNotice {
  ClientId client;
  FileHandle file;
  std::string owner;
};

// CB_RECALL_SLOT: a session is to use fewer slots.
struct SlotRecall {
  ClientId client;
  SessionId session;
  SlotId target_highest;
};

// A connection to be closed: a session of 2004 no longer uses it.
struct ConnectionToClose {
  std::shared_ptr<rpc::BackChannel> way;
  std::string why;  // for logs
};

// CB_CREDITRECALL: a session of 2004 is to use streamids below `target` only.
struct CreditRecall {
  ClientId client;
  uint64_t session = 0;
  uint32_t target = 0;
  bool operator==(const CreditRecall&) const = default;
};

struct Owed {
  std::vector<DelegationRecall> recalls{};
  std::vector<RecallAny> recall_anys{};
  std::vector<LockNotice> notices{};
  std::vector<LockNotice> host_notices{};  // to hosts that lock through NLM
  std::vector<SlotRecall> slot_recalls{};
  std::vector<CreditRecall> credit_recalls{};
  std::vector<ConnectionToClose> closings{};
  std::vector<std::shared_ptr<sess01::RequestWait>> ended_waits{};  // of requests that may go on
};

// Sends the callbacks that are owed. State calls Send() on the thread that changed the state, after it has released the
// lock: Send() may use the state.
class Notices {
 public:
  virtual ~Notices() = default;
  virtual void Send(const Owed& owed) = 0;
};

}  // namespace penstock::nfs::v4
