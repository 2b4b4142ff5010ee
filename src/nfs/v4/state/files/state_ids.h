// Stateids and the table that they lead into (RFC 8881 §8.2.4, RFC 7530 §9.1.4).
//
//      0         4         8        12
//  other:
//  +---------+---------+---------+
//  |instance |  index  |generat. |      big-endian
//  +---------+---------+---------+
//            |---- scrambled ----|
//
// `instance` is another one each time the server starts, so that what an earlier one gave out is recognized. A place in
// the table has a generation for each state that ever used it, so that no `other` is ever given out twice. Both are
// scrambled with a secret: whoever has one stateid cannot reckon another client's. In minor version 0 a stateid is all
// that a request has to show.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/siphash.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

struct ClientFiles;
struct FileState;

enum class StateKind : uint8_t { kOpen, kLocks, kDelegation };

// What stateids are given out for. Lives in the StateIdTable.
struct StateRecord {
  StateRecord(StateKind what, ClientFiles& of, FileState& on) : kind(what), client(&of), file(&on) {}
  virtual ~StateRecord() = default;
  StateRecord(const StateRecord&) = delete;
  StateRecord& operator=(const StateRecord&) = delete;

  // What changes a state changes its stateid's seqid (RFC 8881 §8.2.2). Zero is never used: it means "the latest".
  void Advance() {
    if (++seqid == 0) seqid = 1;
  }

  const StateKind kind;
  ClientFiles* const client;
  FileState* file;  // null when it has ended, and only its stateid is still known
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t seqid = 1;
  std::list<StateRecord*>::iterator in_client;
};

// Why a state is no more: what those who still have its stateid are told.
enum class Ending : uint8_t {
  kReleased,  // by its client, or with it: NFS4ERR_BAD_STATEID
  kExpired,   // with its client's lease: NFS4ERR_EXPIRED
  kRevoked,   // by an administrator: NFS4ERR_ADMIN_REVOKED
};

// The presenter of a stateid. The client is known if the request belongs to a session.
struct Presenter {
  const Dialect& dialect;
  std::optional<ClientId> client;
};

bool IsAnonymous(const nfs4::stateid4& id);   // RFC 8881 §8.2.3: all zeros
bool IsReadBypass(const nfs4::stateid4& id);  // all ones
bool IsCurrent(const nfs4::stateid4& id);     // "whatever the last operation returned"
nfs4::stateid4 InvalidStateId();              // what CLOSE gives (RFC 8881 §18.2.4)

class StateIdTable {
 public:
  // `instance`: neither zero nor all ones, so that no stateid is a special one. `secret`: drawn when the server starts.
  StateIdTable(uint32_t instance, const SipKey& secret);

  template <class Record>
  Record& Add(std::unique_ptr<Record> record) {
    Record& added = *record;
    Place(std::move(record));
    return added;
  }
  void Remove(StateRecord& record, Ending ending);

  nfs4::stateid4 IdOf(const StateRecord& record) const;

  // Without a look at its seqid. NFS4ERR_STALE_STATEID, NFS4ERR_BAD_STATEID, NFS4ERR_EXPIRED, NFS4ERR_ADMIN_REVOKED.
  Result<StateRecord*, nfs4::nfsstat4> Find(const Presenter& who, const nfs4::stateid4& id) const;
  // NFS4ERR_OLD_STATEID, or NFS4ERR_BAD_STATEID for one of the future. Zero stands for the latest in minor version 1 and later.
  static nfs4::nfsstat4 CheckSeqid(const Presenter& who, const StateRecord& record, uint32_t seqid);

  size_t size() const { return size_; }

 private:
  // Of so many states at least that are gone it is remembered how they ended.
  static constexpr size_t kRemembered = 4096;

  struct Slot {
    std::unique_ptr<StateRecord> record;
    uint32_t generation = 0;
    Ending ending = Ending::kReleased;  // of the one with this generation, when it is gone
  };

  void Place(std::unique_ptr<StateRecord> record);

  uint32_t instance_;
  SipKey secret_;
  std::vector<Slot> slots_;
  std::deque<uint32_t> free_;  // the one that is free longest comes first
  size_t size_ = 0;
};

}  // namespace penstock::nfs::v4
