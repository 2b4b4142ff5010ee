// Opens, byte-range locks and delegations, by file and by client (RFC 8881 §9 and §10, RFC 7530 §9 and §10).
//
// A plain table: no I/O, no clock, no lock of its own. Recalls and notices that it finds necessary are queued, and sent by whoever takes
// them (TakeOutgoing) when the lock of State is gone. Where a client is in the way of another one, the answer names it (`blocker`):
// whether its lease still counts is for Clients to say, and where it does not, both tables forget it and the request is tried again.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/timer.h"
#include "fs/file_system.h"
#include "nfs/v4/state/files/delegation_policy.h"
#include "nfs/v4/state/files/lock_ranges.h"
#include "nfs/v4/state/files/records.h"
#include "nfs/v4/state/files/share.h"
#include "nfs/v4/state/files/state_ids.h"
#include "nfs/v4/state/files/write_held.h"
#include "nfs/v4/state/ids.h"
#include "nfs/v4/state/owed.h"
#include "protocol/nfs4_0.h"

namespace penstock::nfs::v4 {

class Files {
 public:
  struct Limits {
    // Opens, lock stateids and delegations. Of a table that is three quarters full no delegation is given, and of one that
    // is nearly full they are recalled: all of it is for opens and locks in the end.
    size_t states = 1 << 20;
    size_t states_per_client = 1 << 16;
    size_t owners = 1 << 20;  // open-owners
    size_t owners_per_client = 1 << 16;
    size_t ranges = 1 << 20;  // of locks
    size_t ranges_per_client = 1 << 16;
    size_t delegations = 1 << 17;
    size_t revoked_per_client = 1 << 12;
    // For so long recalled delegations may stay out (in version 4.0 twice), those who wait for a lock need not ask
    // again, and owners without opens are known.
    Duration lease = std::chrono::seconds(90);
    Duration conflict_memory = std::chrono::seconds(30);
  };

  // `instance` is another one each time the server starts; neither zero nor all ones. `secret` is random: see StateIdTable.
  Files(uint32_t instance, const SipKey& secret, const Limits& limits);
  Files(Files&&) noexcept = default;

  // --- Clients

  // Forgets all that a client has; its stateids are answered as `ending` says.
  void ForgetClient(ClientId client, Ending ending, TimePoint now);
  // Opens, locks or delegations (RFC 8881 §18.50: NFS4ERR_CLIENTID_BUSY).
  bool HasState(ClientId client) const;
  // Whether the principal has a file open (RENEW).
  bool HasOpenBy(ClientId client, const Principal& principal) const;
  // Of delegations, those that can still be recalled (RENEW: NFS4ERR_CB_PATH_DOWN).
  bool HasDelegations(ClientId client) const;
  // Delegations that were revoked, which the client has not acknowledged by FREE_STATEID:
  // SEQ4_STATUS_RECALLABLE_STATE_REVOKED.
  bool HasRevoked(ClientId client) const;

  // --- Stateids (files.cc)

  // The state that a stateid stands for, where it was given for `file`, by this handle, and is of this kind; whatever its seqid. A delegation that was revoked is
  // NFS4ERR_DELEG_REVOKED (version 4.0: NFS4ERR_ADMIN_REVOKED).
  template <class Record>
  Result<Record*, nfs4::nfsstat4> Find(const Presenter& who, const nfs4::stateid4& id, const FileHandle& file) const {
    PENSTOCK_TRY(StateRecord * record, FindRecord(who, id, &file));
    if (auto* const found = dynamic_cast<Record*>(record)) return found;
    return std::unexpected(nfs4::NFS4ERR_BAD_STATEID);
  }
  // Version 4.0: the owner of an open that was closed by that owner's last request, for a CLOSE that is sent again.
  OpenOwner* FindOwnerOfClosed(const nfs4::stateid4& id) const;
  nfs4::nfsstat4 CheckSeqid(const Presenter& who, const StateRecord& record, const nfs4::stateid4& id) const {
    return StateIdTable::CheckSeqid(who, record, id.seqid);
  }
  nfs4::stateid4 IdOf(const StateRecord& record) const { return ids_.IdOf(record); }

  // Whose stateid it is, of any kind, where it is good for anything.
  std::optional<ClientId> ClientOf(const Presenter& who, const nfs4::stateid4& id) const;

  // TEST_STATEID (RFC 8881 §18.48): what would be said to it, wherever it is used.
  nfs4::nfsstat4 Test(const Presenter& who, const nfs4::stateid4& id) const;
  // FREE_STATEID (RFC 8881 §18.38)
  nfs4::nfsstat4 Free(const Presenter& who, const nfs4::stateid4& id);

  // --- Reading and writing

  struct IoVerdict {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    std::optional<ClientId> client{};   // who it is, where that is known: its lease is to be renewed (version 4.0)
    std::optional<ClientId> blocker{};  // of NFS4ERR_LOCKED
  };
  // Whether a file may be read or written under a stateid, special ones included (RFC 8881 §8.2.3, §9.1.2). Delegations of others
  // are another matter: see RecallFor.
  IoVerdict CheckIo(const Presenter& who, const nfs4::stateid4& id, const NamedFile& file, bool write) const;

  // --- Opens (opens.cc)

  // The open-owner of a client, made where there is none. Null where the client has too many.
  // Where there are too many of all clients: see IsFull().
  OpenOwner* GetOpenOwner(ClientId client, ConstBytes name, TimePoint now);
  OpenOwner* FindOpenOwner(ClientId client, ConstBytes name);
  // Version 4.0, an open-owner that was never confirmed and comes with something else (RFC 7530 §16.18.5): it begins anew.
  void RestartOwner(OpenOwner& owner, TimePoint now);
  // A principal that has opened something by this owner.
  void AddMaker(OpenOwner& owner, const Principal& principal);
  // Ends what GetOpenOwner began where no open came of it.
  void ReleaseOwner(OpenOwner& owner, TimePoint now);

  // Who has the file open in a way that forbids another open with `share`, its own client included.
  std::optional<ClientId> FindShareConflict(const NamedFile& file, const Share& share) const;
  bool IsPinned(const NamedFile& file) const;

  struct OpenResult {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    nfs4::stateid4 stateid{};
    bool is_new = false;  // false: what was open already has more shares now
    ShareHistory before{};
    std::optional<ClientId> blocker{};  // of NFS4ERR_SHARE_DENIED
  };
  // `minor_version` says which error stands for "no room": NFS4ERR_RESOURCE; in later versions NFS4ERR_NOSPC where the client itself
  // must close something first, else NFS4ERR_DELAY. `pinned` is kept where the file has none yet.
  OpenResult AddOpen(OpenOwner& owner, const NamedFile& file, const Share& share, const fs::Pinned& pinned,
                     uint32_t minor_version, TimePoint now);
  // As if AddOpen had not been, unless something was done with the open since.
  void UndoOpen(const OpenResult& opened, TimePoint now);

  // NFS4ERR_INVAL where no set of OPENs adds up to `share`.
  nfs4::nfsstat4 Downgrade(OpenState& open, const Share& share);
  // With the locks that were taken under it. In version 4.0 the stateid is known to its owner for one more request.
  void Close(OpenState& open, uint32_t minor_version, TimePoint now);

  // --- Byte-range locks (locks.cc)

  struct LockConflict {
    LockedRange held;
    ClientId client;  // zero where it is no client's, but a local program's
    std::string owner;
  };
  struct LockRequest {
    LockRange range;
    bool exclusive = false;
    bool blocking = false;     // READW_LT, WRITEW_LT
    bool can_be_told = false;  // by CB_NOTIFY_LOCK
    // What local programs see of a lock-owner's locks on the file, from this one on; see NeedsLocalLocks().
    std::shared_ptr<fs::LocalLocks> local{};
    // False where NeedsLocalLocks() saw no need, so `local` was not opened. It is null as well where local programs see nothing.
    bool is_local_open = true;
  };
  struct LockResult {
    nfs4::nfsstat4 status = nfs4::NFS4_OK;
    // Nothing has been done: the owner had locks when NeedsLocalLocks() was asked, and has none now. To be tried again with `local`.
    bool needs_local = false;
    nfs4::stateid4 stateid{};
    std::optional<LockConflict> conflict{};  // of NFS4ERR_DENIED
    std::optional<ClientId> blocker{};       // its client, if it is a client's
  };
  LockOwner* FindLockOwner(ClientId client, ConstBytes name);
  // A lock-owner's first lock on the file, or not its first after all. NFS4ERR_OPENMODE where the open does not allow the lock.
  LockResult Lock(OpenState& open, ConstBytes owner, const LockRequest& request, uint32_t minor_version, TimePoint now);
  LockResult Lock(LockState& locks, const LockRequest& request, uint32_t minor_version, TimePoint now);
  // NFS4_OK, or no room for one more range where one is cut in two (NFS4ERR_DELAY, in minor version 0 NFS4ERR_RESOURCE: as for
  // Lock, whatever there is too much of, RFC 8881 §15.2).
  nfs4::nfsstat4 Unlock(LockState& locks, const LockRange& range, uint32_t minor_version, TimePoint now);
  // `local` is for an owner who has no lock on the file yet, as in LockRequest.
  std::optional<LockConflict> TestLock(const NamedFile& file, ClientId client, ConstBytes owner, const LockRange& range,
                                       bool exclusive, const std::shared_ptr<fs::LocalLocks>& local = nullptr) const;
  // Whether a lock or a test by this owner would be the owner's first on the file, or what the owner has for local programs is for shared
  // locks alone and this one is not: then whoever asks for it opens it for local programs, too (FileSystem::OpenLocks).
  bool NeedsLocalLocks(const NamedFile& file, ClientId client, ConstBytes owner, bool exclusive) const;
  static bool NeedsLocalLocks(const LockState& locks, bool exclusive);
  // Whether the client has locked ranges that local programs see, and are kept from.
  bool HasLocalLocks(ClientId client) const;
  // Now and then: whoever was told that a lock is free and did not come for it has had his turn, and the next one is told.
  void EndTurns(TimePoint now);
  // RELEASE_LOCKOWNER (RFC 7530 §16.37): NFS4ERR_LOCKS_HELD where it holds any.
  nfs4::nfsstat4 ReleaseLockOwner(ClientId client, ConstBytes owner);

  // --- Delegations (delegations.cc)

  struct DelegationRequest {
    ClientId client;
    NamedFile file;
    uint32_t minor_version = 0;
    Principal by{};                         // who asks
    DelegationFacts facts;                  // what only the caller knows: want, share, offered, can_call_back, writable
    std::optional<uint64_t> change{};       // the file's attribute, of which its holder knows by now
    std::optional<RequestName> asked_by{};  // none in minor version 0
    // What FileSystem::OpenLease gave, where NeedsLocalLease said so. Absent where it did not: then no delegation is given that needs a
    // lease after all.
    std::optional<fs::LeaseReply> lease = fs::LeaseReply{};
  };
  // The delegation as OPEN and WANT_DELEGATION answer it.
  nfs4::open_delegation4 Delegate(const DelegationRequest& request, TimePoint now);
  // Whether the answer would be a delegation for reading, and the file has no lease yet: then whoever asks for it asks for that first.
  bool NeedsLocalLease(const DelegationRequest& request, TimePoint now) const;
  // Whether one may be reclaimed (RFC 8881 §8.4.2.1.1): others' opens and delegations are in its way as they would be at any
  // other time.
  bool MayReclaimDelegation(ClientId client, const NamedFile& file, bool write) const;
  // One that was held before the server started again (CLAIM_PREVIOUS); to be returned at once where it could not be recalled, or
  // none are given.
  // Requires MayReclaimDelegation().
  nfs4::open_delegation4 ReclaimDelegation(ClientId client, const NamedFile& file, bool write, bool can_call_back,
                                           uint32_t minor_version, const Principal& by, TimePoint now);

  // What somebody is about to do with a file.
  enum class Use : uint8_t {
    kRead,      // in the way: others' write delegations
    kDenyRead,  // an open that denies reading: all of others' delegations
    kWrite,     // and so
    kChange,    // and so: the file is removed, renamed, linked, or its attributes are set
  };
  struct RecallResult {
    bool clear = true;                // nothing is in the way (any more)
    std::vector<ClientId> holders{};  // those whose delegations are
  };
  // Recalls what is in the way, and revokes what was recalled too long ago. `except` is who does it, where that is
  // known: what it holds by another export's name of the file is in its way, too. Where only its own is left and it writes, the file's
  // lease is given up: the file system could not write.
  RecallResult RecallFor(const NamedFile& file, std::optional<ClientId> except, Use use, TimePoint now);
  // From here on somebody changes the file in whose way no delegation was: none is granted until as many have ended.
  void BeginChange(const NamedFile& file) { ++changing_[file]; }
  void EndChange(const NamedFile& file);
  // Whether RecallFor would find anything: the fast path.
  bool IsDelegated(const NamedFile& file) const;
  // Who holds a write delegation, and thus knows the file's size and change attribute better (CB_GETATTR).
  struct Holder {
    ClientId client;
    FileHandle handle;  // that it knows the file by
  };
  std::optional<Holder> WriteHolder(const NamedFile& file) const;
  // The same, near enough, for those without the lock of State. It stays where it is when this is moved.
  const WriteHeldFiles& write_held() const { return *write_held_; }
  // What somebody else who asks for its attributes is told of a file that is delegated for writing (RFC 8881 §10.4.3). Whether its holder
  // has changed it, as it says now (`said`, nothing where it did not answer) or has said before; `known` is what the file system has.
  struct Version {
    std::optional<uint64_t> change;
    std::optional<uint64_t> size;
  };
  bool IsModified(const NamedFile& file, const Version& said, const Version& known);
  // Of one that its holder has changed: the change attribute to tell, greater than the last that was told, and no less than `known`. The
  // holder may go on changing it without another word.
  uint64_t NextChange(const NamedFile& file, uint64_t known);
  // How many leases nobody had broken when they were last looked at.
  size_t local_leases() const { return leased_.size(); }
  // Looks at so many of them, those first that were not looked at the longest.
  void LookAtLocalLeases(size_t count);
  // Files that local programs wait for: their delegations are to be recalled, again and again until they are gone (RecallFor, kWrite).
  std::vector<NamedFile> FilesWithBrokenLease() const;
  // DELEGRETURN
  void Return(DelegationState& delegation, TimePoint now);

  // --- What is to be sent

  struct Outgoing {
    std::vector<DelegationRecall> recalls{};
    std::vector<LockNotice> notices{};
  };
  Outgoing TakeOutgoing() { return std::exchange(outgoing_, {}); }

  // The tables of all clients have no place left for another open or lock: clients whose lease is over go, before anybody is refused.
  bool IsFull() const {
    return ids_.size() >= limits_.states || owners_ >= limits_.owners || ranges_ + kMoreRanges > limits_.ranges;
  }
  // What a client gets for an OPEN for which there is no room (see AddOpen), a null GetOpenOwner included.
  nfs4::nfsstat4 NoRoomToOpen(ClientId client, uint32_t minor_version) const;

  size_t size() const { return ids_.size(); }
  // What does not fit together (consistency.cc); null: all does. For tests and fuzzers.
  const char* FindInconsistency() const;
  // Delegations that can be recalled, and opens that deny something to others.
  size_t claims() const { return delegations_ + denials_; }

 private:
  FileState* FindFile(const NamedFile& name) const;
  FileState& GetFile(const NamedFile& name);
  DelegationState* FindWriteDelegation(const NamedFile& file) const;
  void ForgetFileIfUnused(FileState& file);
  ClientFiles* FindClient(ClientId client) const;
  ClientFiles& GetClient(ClientId client);
  // A lock may cut one range in two, and add itself between them.
  static constexpr size_t kMoreRanges = 2;
  bool HasRoom(const ClientFiles& client) const;
  bool HasRoomForDelegation(const ClientFiles& client) const;
  bool HasRoomForRanges(const ClientFiles& client, size_t more) const;
  // The same as HasRoom, once what nobody needs has gone. Where the tables fill, delegations are recalled.
  bool MakeRoom(ClientFiles& client, TimePoint now);
  // The only errors that LOCK and LOCKU have for it.
  static nfs4::nfsstat4 NoRoomToLock(uint32_t minor_version) {
    return minor_version == 0 ? nfs4::NFS4ERR_RESOURCE : nfs4::NFS4ERR_DELAY;
  }

  // As Find, of any kind, and on any file where `file` is null.
  Result<StateRecord*, nfs4::nfsstat4> FindRecord(const Presenter& who, const nfs4::stateid4& id,
                                                  const FileHandle* file) const;
  template <class Record>
  Record& AddState(std::unique_ptr<Record> record) {
    ClientFiles& client = *record->client;
    record->in_client = client.states.insert(client.states.end(), record.get());
    return ids_.Add(std::move(record));
  }
  void RemoveState(StateRecord& record, Ending ending);
  void RemoveOpen(OpenState& open, Ending ending, bool keep_stateid, TimePoint now);
  void RemoveLocks(LockState& locks, Ending ending);
  void ForgetClosed(OpenOwner& owner);
  void SetShare(OpenState& open, const Share& share);
  DelegationState& AddDelegation(ClientFiles& client, const NamedFile& name, bool write, uint32_t minor_version);
  DelegationFacts FactsOf(const DelegationRequest& request, TimePoint now) const;
  bool IsWatchable(const NamedFile& name, const std::optional<fs::LeaseReply>& lease) const;
  void AddLease(FileState& file, const std::shared_ptr<fs::LocalLease>& lease);
  void RemoveLease(FileState& file);
  void Detach(DelegationState& delegation);
  void RemoveDelegation(DelegationState& delegation, Ending ending);
  void Revoke(DelegationState& delegation);
  void SendRecall(DelegationState& delegation, TimePoint now);
  void RecallOldest(std::list<DelegationState*>& unrecalled, TimePoint now);
  void RemoveOverdue(TimePoint now);
  Duration PatienceWith(const DelegationState& delegation) const;
  void DropLockOwnerIfUnused(LockOwner& owner);
  bool SweepIdleOwner(std::list<OpenOwner*>& idle, bool crowded, TimePoint now);
  static void CountOpeners(OpenOwner& owner, int by);

  LockOwner* FindLockOwner(ClientId client, std::string_view name) const;
  LockState* FindLocks(const FileState& file, const Party& party, std::string_view owner) const;
  void Apply(LockState& locks, const LockChange& change);
  std::optional<LockConflict> FindHeldConflict(const FileState& file, const Party& party, std::string_view owner,
                                               const LockRange& range, bool exclusive) const;
  std::optional<LockConflict> FindWaiterAhead(const FileState& file, const Party& party, std::string_view owner,
                                              const LockRequest& request) const;
  std::optional<LockConflict> FindObstacle(FileState& file, const OpenState& open, std::string_view owner,
                                           const LockRequest& request, TimePoint now);
  LockResult Extend(LockState& locks, const LockRequest& request, uint32_t minor_version, TimePoint now);
  static std::optional<LockConflict> LockLocally(const std::shared_ptr<fs::LocalLocks>& local,
                                                 const LockRequest& request);
  static void ReplaceLocal(LockState& locks, const std::shared_ptr<fs::LocalLocks>& local);
  static LockResult Denied(std::optional<LockConflict> obstacle);
  void TellWaiters(FileState& file, TimePoint now);

  struct Turn {
    TimePoint until;
    NamedFile file;
  };

  Limits limits_;
  StateIdTable ids_;
  // By what they are, whatever they are called: one file, one set of states.
  std::unordered_map<NamedFile, std::unique_ptr<FileState>, NamedFileHash> files_;
  std::unordered_map<ClientId, std::unique_ptr<ClientFiles>> clients_;
  size_t delegations_ = 0;
  size_t denials_ = 0;
  size_t owners_ = 0;
  size_t ranges_ = 0;
  uint64_t last_holder_ = 0;
  std::list<OpenOwner*> idle_;              // of all clients; the one that is so longest comes first
  std::list<DelegationState*> unrecalled_;  // the oldest first
  std::list<DelegationState*> recalled_;    // in the order of their recalls
  std::list<FileState*> leased_;            // those not looked at the longest come first
  std::list<FileState*> broken_;            // of which the lease is broken
  std::unique_ptr<WriteHeldFiles> write_held_ = std::make_unique<WriteHeldFiles>();
  std::unordered_map<NamedFile, uint32_t, NamedFileHash> changing_;
  RecentConflicts conflicts_;
  Outgoing outgoing_;
  // Files in which somebody was told that a lock is free, in the order of time; each at most once (FileState::has_turn).
  std::deque<Turn> turns_;
};

}  // namespace penstock::nfs::v4
