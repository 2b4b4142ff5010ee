// The table of delegations (RFC 8881 §10.4, RFC 7530 §10.4): it gives, recalls and revokes them, and ends those that
// are returned. It also keeps the leases of the file system, which make programs on the server's host wait until read
// delegations are returned.
//
// The invariants: each delegation that is not revoked is either in the list of recalled delegations or in the list of
// unrecalled ones, and its file lists it. A file has a lease of the file system only while it has a read delegation.
//
// Files by subject: delegations.cc, surplus_delegations.cc (what happens if there are too many), local_leases.cc
// (leases of the file system), delegation_policy.cc (which client gets a delegation).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/steady_map.h"
#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/dialect/dialect.h"
#include "nfs/v4/state/files/delegation_policy.h"
#include "nfs/v4/state/files/delegation_pressure.h"
#include "nfs/v4/state/files/state_records.h"
#include "nfs/v4/state/files/write_held.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/owed.h"
#include "protocol/nfs4_types.h"

namespace penstock::nfs::v4 {

class Delegations {
 public:
  // The records outlive this table.
  explicit Delegations(StateRecords& records)
      : records_(records), pressure_(records.limits().delegations), conflicts_(records.limits().conflict_memory) {}

  // ---- giving and returning

  struct DelegationRequest {
    ClientId client;
    NamedFile file;
    const Dialect& dialect;
    Principal by{};                         // the principal that asks
    DelegationFacts facts;                  // the caller sets want, share, offered, can_call_back, writable
    std::optional<uint64_t> change{};       // the file's change attribute; the holder increments it from there
    bool wants_times = false;               // the holder of a write delegation wants to be the authority for the times
    DelegatedTimes original{};              // the file's times
    std::optional<RequestName> asked_by{};  // none in minor version 0
    // The reply of FileSystem::OpenLease, if NeedsLocalLease() returned true. Without it, no delegation that needs a
    // lease is given.
    std::optional<fs::LeaseReply> lease = fs::LeaseReply{};
  };
  // Gives a delegation if the policy allows it. Returns it, or the reason why none is given, as in the results of OPEN
  // and WANT_DELEGATION.
  nfs4::open_delegation4 Delegate(const DelegationRequest& request, TimePoint now);
  // Whether Delegate() would give a read delegation and the file has no lease of the file system yet. Then the caller
  // asks the file system for the lease first.
  bool NeedsLocalLease(const DelegationRequest& request, TimePoint now) const;
  // Whether the client holds a write delegation of the file.
  bool HoldsForWriting(ClientId client, const NamedFile& file) const;
  // Whether a delegation may be reclaimed (RFC 8881 §8.4.2.1.1). Opens and delegations of other clients conflict with
  // it as at any other time.
  bool MayReclaimDelegation(ClientId client, const NamedFile& file, bool write) const;
  // Gives a delegation that was held before the server restarted (CLAIM_PREVIOUS). If `can_call_back` is false, because
  // the client cannot be called or no delegations are given, the answer asks the client to return it at once. Requires
  // MayReclaimDelegation().
  struct Reclaimed {
    bool write = false;
    bool has_times = false;  // the holder is the authority for the times; write delegations only
  };
  nfs4::open_delegation4 ReclaimDelegation(ClientId client, const NamedFile& file, Reclaimed type, bool can_call_back,
                                           const Dialect& dialect, const Principal& by, TimePoint now);
  // DELEGRETURN
  void Return(DelegationState& delegation, TimePoint now);

  // ---- conflicts

  // The use that a request is about to make of a file.
  enum class Use : uint8_t {
    kRead,      // conflicts with write delegations of other clients
    kDenyRead,  // an open that denies reading: conflicts with all delegations of other clients
    kWrite,     // conflicts with all delegations of other clients
    kChange,    // conflicts like kWrite: the file is removed, renamed or linked, or its attributes are set
  };
  struct RecallResult {
    std::vector<ClientId> holders{};  // of conflicting delegations; empty if none is left
  };
  // Recalls conflicting delegations, and revokes those that were recalled too long ago. `except` is the client that
  // uses the file, if it is known; a delegation that it holds by another export's name of the file conflicts, too. If
  // kWrite has no conflict, the file's lease of the file system is given up, because the file system could not write
  // otherwise.
  RecallResult RecallFor(const NamedFile& file, std::optional<ClientId> except, Use use, TimePoint now);
  // Whether RecallFor() would change anything. If not, there is no conflict.
  bool MustRecallFor(const NamedFile& file, std::optional<ClientId> except, Use use) const;
  // Between these two calls, a request changes the file, and no delegation of the file is given. RecallFor() found no
  // conflict before. Several requests may change the file at the same time.
  void BeginChange(const NamedFile& file) { ++changing_[file]; }
  void EndChange(const NamedFile& file);
  // Recalls some delegations, the oldest first, to make room for opens and locks: of one client, or of all.
  void RecallOldest(ClientFiles& client, TimePoint now) { RecallOldest(client.unrecalled, now); }
  void RecallOldest(TimePoint now) { RecallOldest(unrecalled_, now); }
  // Removes the records of the delegations that were recalled too long ago, because there is no room. Their stateids
  // get NFS4ERR_ADMIN_REVOKED.
  void RemoveOverdue(TimePoint now);
  void RemoveDelegation(DelegationState& delegation, Ending ending);
  // Why a delegation is revoked.
  enum class Cause : uint8_t { kNotReturned, kOperator };
  // Revokes a delegation that was not revoked before. A client that can free it keeps its stateid until then.
  void Revoke(DelegationState& delegation, Cause cause = Cause::kNotReturned);

  // ---- too many delegations (surplus_delegations.cc, RFC 8881 §20.6)

  // The callbacks that a client can get.
  enum class Reach : uint8_t {
    kNone,       // none: the client is about to end
    kRecall,     // CB_RECALL only
    kRecallAny,  // CB_RECALL_ANY as well
  };
  // While the delegations are under pressure, brings each client that has more of them than the level
  // (DelegationPressure) down to it. CB_RECALL_ANY asks the client first, which chooses the delegations that it
  // returns. If it has not come down a lease time later, or cannot be asked, its oldest delegations are recalled.
  // Recalled delegations that are not returned in time are revoked. Call it regularly: each call does a limited amount
  // of work.
  void ReduceSurplus(TimePoint now, const std::function<Reach(ClientId)>& reach);
  // Whether the client has more delegations than the level, under pressure.
  bool HasSurplus(ClientId client) const;
  // Whether the client still has to follow this CB_RECALL_ANY.
  bool IsOwed(const RecallAny& asked) const;
  // The client does not execute CB_RECALL_ANY. Its delegations are recalled one by one.
  void HandleRecallAnyRefused(ClientId client);
  const DelegationPressure& pressure() const { return pressure_; }

  // ---- attributes of a file that is delegated for writing (CB_GETATTR, RFC 8881 §10.4.3)

  // The holder of a write delegation, which knows the file's size and change attribute better than the server.
  struct Holder {
    ClientId client;
    FileHandle handle;  // the handle that the client knows the file by
    bool has_times;     // the holder is the authority for the file's times
    DelegatedTimes original;
  };
  std::optional<Holder> WriteHolder(const NamedFile& file) const;
  // Tells approximately which files have a write delegation, without the lock of the state.
  const WriteHeldFiles& write_held() const { return write_held_; }
  struct Version {
    std::optional<uint64_t> change;
    std::optional<uint64_t> size;
  };
  // Whether the holder of the write delegation has changed the file. `said` is its reply to CB_GETATTR, empty if it did
  // not answer; an earlier reply that told of a change counts, too. `known` is the version of the file system.
  bool IsModified(const NamedFile& file, const Version& said, const Version& known);
  // Returns the change attribute that another client is told for a file that the holder has changed: greater than the
  // one that was last told, and not less than `known`. The holder may change the file again without telling the server.
  uint64_t NextChange(const NamedFile& file, uint64_t known);

  // ---- leases of the file system (local_leases.cc)

  // The number of leases that were not broken at their last check.
  size_t local_leases() const { return leased_.size(); }
  // Checks this many of these leases, in the order of their last checks.
  void LookAtLocalLeases(size_t count);
  // Returns the files that local programs wait for. The caller recalls their delegations (RecallFor, kWrite) repeatedly
  // until none is left.
  std::vector<NamedFile> FilesWithBrokenLease() const;

  // ---- clients

  // Whether the client has delegations that can still be recalled (RENEW: NFS4ERR_CB_PATH_DOWN).
  bool HasDelegations(ClientId client) const;
  // Whether the client has revoked delegations that it has not acknowledged by FREE_STATEID
  // (SEQ4_STATUS_RECALLABLE_STATE_REVOKED).
  bool HasRevoked(ClientId client) const;

  // Whether recalls are to be sent, and takes them.
  bool has_recalls() const { return !recalls_.empty(); }
  std::vector<DelegationRecall> TakeRecalls() { return std::exchange(recalls_, {}); }
  bool has_recall_anys() const { return !recall_anys_.empty(); }
  std::vector<RecallAny> TakeRecallAnys() { return std::exchange(recall_anys_, {}); }
  // The number of delegations that can be recalled.
  size_t count() const { return count_; }
  // Describes the first inconsistency; returns null if there is none (consistency.cc).
  const char* FindInconsistency() const;

 private:
  DelegationState* FindWriteDelegation(const NamedFile& file) const;
  bool HasRoomForDelegation(const ClientFiles& client) const;
  DelegationState& AddDelegation(ClientFiles& client, const NamedFile& name, bool write, const Dialect& dialect);
  DelegationFacts FactsOf(const DelegationRequest& request, TimePoint now) const;
  bool IsWatchable(const NamedFile& name, const std::optional<fs::LeaseReply>& lease) const;
  void AddLease(FileState& file, const std::shared_ptr<fs::LocalLease>& lease);
  void RemoveLease(FileState& file);
  // The delegations of the file that are in the way of RecallFor().
  std::vector<DelegationState*> FindInTheWay(const FileState& file, const NamedFile& name,
                                             std::optional<ClientId> except, Use use) const;
  void Detach(DelegationState& delegation);
  void SendRecall(DelegationState& delegation, TimePoint now);
  void RecallOldest(std::list<DelegationState*>& unrecalled, TimePoint now);
  bool IsOverdue(const DelegationState& delegation, TimePoint now) const;
  // surplus_delegations.cc
  std::vector<ClientFiles*> AdaptPressure();
  void RevokeOverdue(TimePoint now);
  bool MayAsk(const ClientFiles& client, TimePoint now) const;
  void Ask(ClientFiles& client, TimePoint now);
  void RecallDownTo(ClientFiles& client, size_t keep, TimePoint now);
  Duration PatienceWith(const DelegationState& delegation) const;

  StateRecords& records_;
  size_t count_ = 0;
  size_t holders_ = 0;  // the clients that have one of them or more
  DelegationPressure pressure_;
  std::list<DelegationState*> unrecalled_;  // the oldest first
  std::list<DelegationState*> recalled_;    // in the order of their recalls
  std::list<FileState*> leased_;            // files with a lease, in the order of their last checks
  std::list<FileState*> broken_;            // files whose lease is broken
  WriteHeldFiles write_held_;
  SteadyMap<NamedFile, uint32_t, NamedFileHash> changing_;
  RecentConflicts conflicts_;
  std::vector<DelegationRecall> recalls_;
  std::vector<RecallAny> recall_anys_;
};

}  // namespace penstock::nfs::v4
