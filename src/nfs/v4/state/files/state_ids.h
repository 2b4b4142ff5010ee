// Stateids, and the table of the records that they name (RFC 8881 §8.2.4, RFC 7530 §9.1.4).
//
//      0         4         8        12
//  other:
//  +---------+---------+---------+
//  |instance |  index  |generat. |      big-endian
//  +---------+---------+---------+
//            |---- scrambled ----|
//
// `instance` differs each time the server starts, so stateids of earlier runs are recognized. An entry of the table has
// another generation for each state that uses it, so no `other` is ever given out twice. Index and generation are
// scrambled with a secret, so that a client cannot compute the stateid of another client from its own. In minor version
// 0 a stateid is the only proof that a request carries.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/siphash.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/ids.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

struct ClientFiles;
struct FileState;

enum class StateKind : uint8_t { kOpen, kLocks, kDelegation };

// A state that a stateid names. The StateIdTable owns it.
struct StateRecord {
  StateRecord(StateKind what, ClientFiles& of, FileState& on) : kind(what), client(&of), file(&on) {}
  virtual ~StateRecord() = default;
  StateRecord(const StateRecord&) = delete;
  StateRecord& operator=(const StateRecord&) = delete;

  // Call this when the state changes: the seqid of its stateid changes, too (RFC 8881 §8.2.2). Zero is never used,
  // because it means "the latest".
  void Advance() {
    if (++seqid == 0) seqid = 1;
  }

  const StateKind kind;
  ClientFiles* const client;
  FileState* file;  // null once the state has ended and only its stateid is still known
  uint32_t index = 0;
  uint32_t generation = 0;
  uint32_t seqid = 1;
  std::list<StateRecord*>::iterator in_client;
};

// Why a state has ended. It decides the error for a request with the old stateid.
enum class Ending : uint8_t {
  kReleased,  // the client released it, or ended: NFS4ERR_BAD_STATEID
  kExpired,   // the client's lease was over: NFS4ERR_EXPIRED
  kRevoked,   // the server revoked it: NFS4ERR_ADMIN_REVOKED
  // These are NFS4ERR_ADMIN_REVOKED, too. If the client can acknowledge the loss, SEQUENCE reports it until then: see
  // StateRecords::RemoveState().
  kRevokedByOperator,
  kNotReturned,  // a delegation that was recalled
};

// The presenter of a stateid. The client is known if the request belongs to a session.
struct Presenter {
  const Dialect& dialect;
  std::optional<ClientId> client;
};

bool IsAnonymous(const nfs4::stateid4& id);   // RFC 8881 §8.2.3: all zeros
bool IsReadBypass(const nfs4::stateid4& id);  // all ones
bool IsCurrent(const nfs4::stateid4& id);     // the stateid that the last operation returned
nfs4::stateid4 InvalidStateId();              // the result of CLOSE (RFC 8881 §18.2.4)

class StateIdTable {
 public:
  // `instance` is neither zero nor all ones, so that no stateid is a special one. `secret` is drawn when the server
  // starts.
  StateIdTable(uint32_t instance, const SipKey& secret);

  template <class Record>
  Record& Add(std::unique_ptr<Record> record) {
    Record& added = *record;
    Place(std::move(record));
    return added;
  }
  // With `keeps_slot`, no other state gets the slot, and the Ending is known, until Release().
  void Remove(StateRecord& record, Ending ending, bool keeps_slot = false);
  // Releases a slot that Remove() kept: its stateid is NFS4ERR_BAD_STATEID from now on.
  void Release(uint32_t index);
  // Whether the slot has no state and was not released.
  bool IsKept(uint32_t index) const;
  // Returns the slot of a stateid whose state has ended; nothing if another state has the slot now, or if the state has
  // not ended.
  std::optional<uint32_t> EndedSlotOf(const nfs4::stateid4& id) const;

  nfs4::stateid4 IdOf(const StateRecord& record) const;

  // Finds a record; the seqid does not matter. NFS4ERR_STALE_STATEID, NFS4ERR_BAD_STATEID, NFS4ERR_EXPIRED,
  // NFS4ERR_ADMIN_REVOKED.
  Result<StateRecord*, nfs4::nfsstat4> Find(const Presenter& who, const nfs4::stateid4& id) const;
  // Finds a record without a check of the presenter. Returns null if there is none. The seqid does not matter.
  StateRecord* RecordOf(const nfs4::stateid4& id) const;
  // NFS4ERR_OLD_STATEID, or NFS4ERR_BAD_STATEID for a seqid that was not given out yet. Zero means the latest in minor
  // version 1 and later.
  static nfs4::nfsstat4 CheckSeqid(const Presenter& who, const StateRecord& record, uint32_t seqid);

  size_t size() const { return size_; }

  // Calls look(record) for the records of at most `slots` slots, from the slot `first` on, until it returns false.
  // Returns the slot to go on with; nothing once all were visited. A record that stays keeps its slot: visits that go
  // on one after another meet it once, whatever comes and goes between them.
  template <class Look>
  std::optional<size_t> Visit(size_t first, size_t slots, Look look) const {
    const size_t end = slots_.size() - first > slots ? first + slots : slots_.size();
    for (size_t at = first; at < end; ++at) {
      const StateRecord* const record = slots_[at].record.get();
      if (record && !look(*record)) return at + 1;
    }
    return end < slots_.size() ? std::optional(end) : std::nullopt;
  }

 private:
  // The table remembers the Ending of the last states that ended, of this many at least.
  static constexpr size_t kRemembered = 4096;

  struct Slot {
    std::unique_ptr<StateRecord> record;
    uint32_t generation = 0;
    Ending ending = Ending::kReleased;  // of the state with this generation, once it has ended
    bool kept = false;                  // until Release()
  };

  void Place(std::unique_ptr<StateRecord> record);
  void SetFree(uint32_t index);
  // Returns the index of the slot that has the state of this stateid, or had it last; nothing if there is none.
  std::optional<uint32_t> IndexOf(const nfs4::stateid4& id) const;
  // The slot itself; null if there is none.
  const Slot* SlotOf(const nfs4::stateid4& id) const;

  uint32_t instance_;
  SipKey secret_;
  std::deque<Slot> slots_;
  std::deque<uint32_t> free_;  // the slot that has been free longest comes first
  size_t size_ = 0;
};

}  // namespace penstock::nfs::v4
