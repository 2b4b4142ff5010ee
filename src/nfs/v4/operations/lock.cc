// LOCK, LOCKT, LOCKU, RELEASE_LOCKOWNER.
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/many_locks.h"
#include "nfs/v4/operations/stateful.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// The lock-owner's locks on the current file for local programs, or the error of opening them. Null if local programs
// see none, or if they are open already.
using LocalLocks = Result<std::shared_ptr<fs::LocalLocks>, nfsstat4>;
// nullopt if they were not requested.
using MaybeLocalLocks = std::optional<LocalLocks>;

// Returns true if Locks::Lock() or Locks::Unlock() has no room for the lock (ErrorWords::no_room of any dialect).
bool IsNoRoom(nfsstat4 status) { return status == NFS4ERR_RESOURCE || status == NFS4ERR_DELAY; }

// The COMPOUND keeps the owner's name, because the result is a view of it.
LOCK4denied ToDenied(Compound& compound, const Locks::LockConflict& conflict) {
  compound.result_text = conflict.owner;
  return {.offset = conflict.held.range.first,
          .length = conflict.held.range.length(),
          .locktype = conflict.held.exclusive ? WRITE_LT : READ_LT,
          .owner = {.clientid = IsLockHost(conflict.client) ? 0 : conflict.client.value(),
                    .owner = AsBytes(compound.result_text)}};
}

// One attempt at LOCK, with the tables locked.
class LockAttempt {
 public:
  LockAttempt(Compound& compound, StateTables& state, const LOCK4args& arguments, const MaybeLocalLocks& local,
              const std::optional<Locks::LocalAnswer>& answer)
      : compound_(compound),
        state_(state),
        arguments_(arguments),
        local_(local),
        answer_(answer),
        who_(PresenterOf(compound)) {}

  LOCK4res Run() { return arguments_.locker.new_lock_owner() ? RunOfNewOwner() : RunOfKnownOwner(); }

  // The lease of the conflicting client has expired. Nothing has been done: remove that client, and try again.
  std::optional<ClientId> expired_blocker() const { return expired_blocker_; }
  // The owner has lost its locks meanwhile. Nothing has been done: see Locks::LockResult.
  bool needs_local() const { return needs_local_; }
  // Another request is changing the locks of the file in several steps. Nothing has been done: see ChangeWait.
  bool must_wait() const { return must_wait_; }
  // Nothing has been done: take these locks, and try again with the answer. See Locks::LockResult.
  const std::shared_ptr<fs::LocalLocks>& asks() const { return asks_; }

 private:
  LOCK4res RunOfNewOwner();
  LOCK4res RunOfKnownOwner();
  LOCK4res Take(ClientId client, const StateRecord& record, const stateid4& id, auto lock);
  void Finish(OwnerSequence& sequence, seqid4 given, const LOCK4res& results);
  LOCK4res Replay(const LOCK4res& results, const OwnerSequence& sequence);

  bool is_sequenced() const { return compound_.dialect.counts_owner_seqids(); }
  bool is_done() const { return !expired_blocker_ && !needs_local_ && !must_wait_ && !asks_; }

  Compound& compound_;
  StateTables& state_;
  const LOCK4args& arguments_;
  const MaybeLocalLocks& local_;
  const std::optional<Locks::LocalAnswer>& answer_;
  const Presenter who_;
  std::optional<ClientId> expired_blocker_;
  bool needs_local_ = false;
  bool must_wait_ = false;
  std::shared_ptr<fs::LocalLocks> asks_;
};

LOCK4res LockAttempt::Replay(const LOCK4res& results, const OwnerSequence& sequence) {
  if (!results.is_denied()) return results;
  compound_.result_text = sequence.last().denied_owner;
  LOCK4denied denied = results.denied();
  denied.owner.owner = AsBytes(compound_.result_text);
  return LOCK4res(NFS4ERR_DENIED, denied);
}

void LockAttempt::Finish(OwnerSequence& sequence, seqid4 given, const LOCK4res& results) {
  sequence.Finish(SequenceId(given), results, std::nullopt, results.is_denied() ? compound_.result_text : "");
}

// The common part of both forms of LOCK. `lock` requests the lock from the table.
LOCK4res LockAttempt::Take(ClientId client, const StateRecord& record, const stateid4& id, auto lock) {
  const auto range = LockRange::From(arguments_.offset, arguments_.length);
  if (!range) return LOCK4res(NFS4ERR_INVAL);
  if (const nfsstat4 status = state_.files.CheckSeqid(who_, record, id); status != NFS4_OK) return LOCK4res(status);
  const bool is_delegated =
      state_.clients.InGrace() && state_.files.delegations.HoldsForWriting(client, compound_.current->name());
  const nfsstat4 early =
      arguments_.reclaim ? state_.clients.CheckReclaim(client) : state_.clients.CheckNew(client, is_delegated);
  if (early != NFS4_OK) return LOCK4res(early);
  if (local_ && !*local_) return LOCK4res(local_->error());
  must_wait_ = !answer_ && compound_.call.peer.loop && state_.files.locks.IsChanging(compound_.current->name());
  if (must_wait_) return LOCK4res(NFS4ERR_DELAY);

  const Locks::LockResult result = lock(Locks::LockRequest{.range = *range,
                                                           .exclusive = IsExclusive(arguments_.locktype),
                                                           .blocking = IsBlocking(arguments_.locktype),
                                                           .can_be_told = compound_.dialect.has_lock_notices(),
                                                           .local = local_ ? **local_ : nullptr,
                                                           .is_local_open = local_.has_value(),
                                                           .answer = answer_});
  needs_local_ = result.needs_local;
  asks_ = result.asks;
  if (result.status == NFS4_OK) {
    SetCurrentStateId(compound_, result.stateid);
    return LOCK4res(NFS4_OK, LOCK4resok{.lock_stateid = result.stateid});
  }
  if (result.status != NFS4ERR_DENIED) return LOCK4res(result.status);
  if (result.blocker && state_.clients.IsExpired(*result.blocker, compound_.now())) expired_blocker_ = result.blocker;
  // RFC 8881 §8.4.2.1: in the grace period, another client has reclaimed the lock wrongly, or a local program has it by
  // now.
  if (arguments_.reclaim) return LOCK4res(NFS4ERR_RECLAIM_CONFLICT);
  return LOCK4res(NFS4ERR_DENIED, ToDenied(compound_, *result.conflict));
}

// LOCK by a new lock-owner: under an open, in the sequence of its open-owner (RFC 8881 §18.10.3).
LOCK4res LockAttempt::RunOfNewOwner() {
  const open_to_lock_owner4& locker = arguments_.locker.open_owner();
  const auto id = ResolveStateId(compound_, locker.open_stateid);
  if (!id) return LOCK4res(id.error());
  const auto found = FindOwn<OpenState>(compound_, state_, *id);
  if (!found) return LOCK4res(found.error());
  OpenState& open = **found;
  const ClientId client = open.client->id;
  const ConstBytes name = locker.lock_owner.owner.bytes();
  if (is_sequenced()) {
    const ClientId named(locker.lock_owner.clientid);
    if (const nfsstat4 status = state_.clients.Check(named); status != NFS4_OK) return LOCK4res(status);
    if (named != client || !open.owner->confirmed) return LOCK4res(NFS4ERR_BAD_STATEID);

    // RFC 7530 §9.1.9: the lock-owner may have its own sequence already.
    const OwnerSequence& opens = open.owner->sequence;
    if (auto answer = AnswerOutOfTurn<LOCK4res>(opens, SequenceId(locker.open_seqid))) return Replay(*answer, opens);
    if (const LockOwner* const known = state_.files.locks.FindLockOwner(client, name)) {
      const OwnerSequence& locks = known->sequence;
      if (auto answer = AnswerOutOfTurn<LOCK4res>(locks, SequenceId(locker.lock_seqid))) return Replay(*answer, locks);
    }
  }
  LOCK4res results = Take(client, open, *id, [&](const Locks::LockRequest& request) {
    return state_.files.locks.Lock(open, name, request, who_.dialect, compound_.now());
  });
  if (!is_sequenced() || !is_done()) return results;
  Finish(open.owner->sequence, locker.open_seqid, results);
  if (LockOwner* const owner = state_.files.locks.FindLockOwner(client, name)) {
    Finish(owner->sequence, locker.lock_seqid, results);
  }
  return results;
}

LOCK4res LockAttempt::RunOfKnownOwner() {
  const exist_lock_owner4& locker = arguments_.locker.lock_owner();
  const auto id = ResolveStateId(compound_, locker.lock_stateid);
  if (!id) return LOCK4res(id.error());
  const auto found = FindOwn<LockState>(compound_, state_, *id);
  if (!found) return LOCK4res(found.error());
  LockState& locks = **found;
  OwnerSequence& sequence = locks.owner->sequence;
  if (is_sequenced()) {
    if (auto answer = AnswerOutOfTurn<LOCK4res>(sequence, SequenceId(locker.lock_seqid))) {
      return Replay(*answer, sequence);
    }
  }
  LOCK4res results = Take(locks.client->id, locks, *id, [&](const Locks::LockRequest& request) {
    return state_.files.locks.Lock(locks, request, who_.dialect, compound_.now());
  });
  if (is_sequenced() && is_done()) Finish(sequence, locker.lock_seqid, results);
  return results;
}

// RFC 8881 §18.11.4, RFC 7530 §16.11.4
nfsstat4 CheckLockable(const Compound& compound, fs::FileType type) {
  switch (type) {
    case fs::FileType::kRegular:
      return NFS4_OK;
    case fs::FileType::kDirectory:
      return NFS4ERR_ISDIR;
    case fs::FileType::kSymlink:
      return compound.dialect.errors().symlink_has_no_data;
    default:
      return compound.dialect.errors().special_has_no_data;
  }
}

struct TestOutcome {
  nfsstat4 status = NFS4_OK;
  std::optional<Locks::LockConflict> conflict{};
  bool needs_local = false;  // the owner has lost its locks meanwhile
  bool must_wait = false;    // as in LockAttempt
  // No client is in the way: now test these locks for local programs, without the state's lock. May be null.
  std::shared_ptr<fs::LocalLocks> seen{};
};

TestOutcome TestNow(const Compound& compound, const LOCKT4args& arguments, const LockRange& range,
                    const MaybeLocalLocks& local) {
  return compound.services.state.Run([&](StateTables& state) -> TestOutcome {
    const auto client = ClientOf(compound, state, arguments.owner.clientid);
    if (!client) return {client.error()};
    if (state.clients.InGrace()) return {NFS4ERR_GRACE};
    const Files& files = state.files;
    const NamedFile& file = compound.current->name();
    if (compound.call.peer.loop && files.locks.IsChanging(file)) return {.must_wait = true};
    const ConstBytes owner = arguments.owner.owner.bytes();
    if (!local && files.locks.NeedsLocalLocks(file, *client, owner, false)) return {.needs_local = true};
    auto conflict = files.locks.TestLock(file, *client, owner, range, IsExclusive(arguments.locktype));
    if (conflict) return {NFS4ERR_DENIED, std::move(conflict)};
    return {.seen = files.locks.LocalLocksOf(file, *client, owner, local ? **local : nullptr)};
  });
}

ClientId NamedClient(const Compound& compound, const lock_owner4& owner) {
  return compound.session ? compound.session->client : ClientId(owner.clientid);
}

// RFC 8881 §15.2: LOCK and LOCKT have no other errors for a file system's errors here.
nfsstat4 ToLockStatus(fs::Error error) {
  return error == fs::Error::kDelay || error == fs::Error::kStale ? ToStatus(error) : NFS4ERR_SERVERFAULT;
}

// Gives back local locks that were taken for a LOCK that has failed after all. Locks without an owner end by
// themselves.
void UndoLocally(const Compound& compound, StateTables& state, const LOCK4args& arguments,
                 const std::shared_ptr<fs::LocalLocks>& taken) {
  const Object& file = *compound.current;
  const LockState* locks = nullptr;
  if (arguments.locker.new_lock_owner()) {
    const lock_owner4& owner = arguments.locker.open_owner().lock_owner;
    locks = state.files.locks.FindLocks(file.name(), NamedClient(compound, owner), owner.owner.bytes());
  } else if (const auto id = ResolveStateId(compound, arguments.locker.lock_owner().lock_stateid)) {
    const auto found = state.files.Find<LockState>(PresenterOf(compound), *id, file.handle());
    if (found) locks = *found;
  }
  const auto range = LockRange::From(arguments.offset, arguments.length);
  if (locks && locks->local == taken && range) Locks::RestoreLocally(*locks, *range);
}

Task<LocalLocks> OpenLocalLocks(const Compound& compound, bool exclusive) {
  const Object& file = *compound.current;
  auto opened = co_await file.file_system().OpenLocks(file.context(), file.object(), exclusive);
  if (!opened) co_return std::unexpected(ToLockStatus(opened.error()));
  co_return *std::move(opened);
}

// Opens the locks for local programs. They are opened for exclusive locks if the client may write, because it will
// probably lock exclusively later.
struct LocalNeeds {
  bool any = false;
  bool exclusive = false;
};
LocalNeeds LocalNeedsOf(const Compound& compound, const LOCK4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const Object& file = *compound.current;
  const bool exclusive = IsExclusive(arguments.locktype);
  return compound.services.state.Run([&](StateTables& state) -> LocalNeeds {
    const Files& files = state.files;
    if (!arguments.locker.new_lock_owner()) {
      const auto id = ResolveStateId(compound, arguments.locker.lock_owner().lock_stateid);
      const auto locks = id ? files.Find<LockState>(who, *id, file.handle()) : std::unexpected(id.error());
      const bool allowed = locks && (*locks)->open->share.AllowsLock(exclusive);
      return {.any = allowed && Locks::NeedsLocalLocks(**locks, exclusive), .exclusive = true};
    }
    const open_to_lock_owner4& locker = arguments.locker.open_owner();
    const auto id = ResolveStateId(compound, locker.open_stateid);
    const auto open = id ? files.Find<OpenState>(who, *id, file.handle()) : std::unexpected(id.error());
    // A client without write permission must not break leases: the server would have to open the file for writing.
    if (!open || !(*open)->share.AllowsLock(exclusive)) return {};
    const lock_owner4& owner = locker.lock_owner;
    return {
        .any = files.locks.NeedsLocalLocks(file.name(), NamedClient(compound, owner), owner.owner.bytes(), exclusive),
        .exclusive = (*open)->share.writes()};
  });
}

}  // namespace

// RFC 8881 §18.10
Task<LOCK4res> Lock(Compound& compound, const LOCK4args& arguments) {
  const NamedFile& file = compound.current->name();
  ChangeWait change(compound.call.peer.loop);
  for (;;) {
    const LocalNeeds needs = LocalNeedsOf(compound, arguments);
    MaybeLocalLocks local;
    if (needs.any) local = co_await OpenLocalLocks(compound, needs.exclusive);
    std::optional<ClientId> blocker;
    bool needs_local = false, must_wait = false;
    std::shared_ptr<fs::LocalLocks> asked;
    std::optional<Locks::LocalAnswer> answer;
    const auto run = [&](StateTables& state) {
      if (answer) state.files.locks.EndChange(file);
      LockAttempt attempt(compound, state, arguments, local, answer);
      LOCK4res attempted = attempt.Run();
      blocker = attempt.expired_blocker();
      needs_local = attempt.needs_local();
      must_wait = attempt.must_wait();
      if (attempt.asks()) {
        asked = attempt.asks();
        state.files.locks.BeginChange(file);
      }
      if (answer && !answer->conflict && attempted.status() != NFS4_OK) {
        UndoLocally(compound, state, arguments, asked);
      }
      return attempted;
    };
    LOCK4res results = compound.services.state.Run(run);
    if (asked) {
      const LockRange range = *LockRange::From(arguments.offset, arguments.length);
      answer = Locks::LocalAnswer{asked->Lock(range.first, range.last, IsExclusive(arguments.locktype))};
      results = compound.services.state.Run(run);
      // If no owner has got these local locks, they end here, before this request waits for anything.
      asked.reset();
      if (results.status() != NFS4_OK) local.reset();
    }
    if (must_wait) co_await change.Once();
    if (needs_local || must_wait) continue;
    if (!blocker) {
      if ((local && !*local) || !IsNoRoom(results.status())) co_return results;
      if (!co_await MakeRoomForState(compound.services, compound.call.peer.loop)) co_return results;
      continue;
    }
    // If the expired client cannot be removed now, this client tries again. Its sequence has not advanced.
    if (!co_await ForgetExpiredHolders(compound, std::vector(1, *blocker))) {
      co_return LOCK4res(compound.dialect.errors().no_room);
    }
  }
}

// RFC 8881 §18.11
Task<LOCKT4res> TestLock(Compound& compound, const LOCKT4args& arguments) {
  const Object& file = *compound.current;
  const auto attributes = co_await file.file_system().GetAttributes(file.context(), file.object());
  if (!attributes) co_return LOCKT4res(ToStatus(attributes.error()));
  if (const nfsstat4 status = CheckLockable(compound, attributes->type); status != NFS4_OK) {
    co_return LOCKT4res(status);
  }
  const auto range = LockRange::From(arguments.offset, arguments.length);
  if (!range) co_return LOCKT4res(NFS4ERR_INVAL);
  MaybeLocalLocks local;
  ChangeWait change(compound.call.peer.loop);
  for (;;) {
    TestOutcome outcome = TestNow(compound, arguments, *range, local);
    if (outcome.must_wait) {
      co_await change.Once();
      continue;
    }
    if (outcome.needs_local) {
      local = co_await OpenLocalLocks(compound, false);
      if (!*local) co_return LOCKT4res(local->error());
      continue;
    }
    outcome.conflict = outcome.conflict
                           ? std::move(outcome.conflict)
                           : Locks::TestLocally(outcome.seen.get(), *range, IsExclusive(arguments.locktype));
    if (!outcome.conflict) co_return LOCKT4res(outcome.status);
    const bool is_clients = outcome.conflict->client != ClientId();
    if (is_clients && co_await ForgetExpiredHolders(compound, std::vector(1, outcome.conflict->client))) continue;
    co_return LOCKT4res(NFS4ERR_DENIED, ToDenied(compound, *outcome.conflict));
  }
}

namespace {

// The release of the local locks of a LOCKU. It takes time if the file has many locks, so it is done without the
// state's lock, while the file is changing, and before the tables let other clients have the range.
struct LocalUnlock {
  std::shared_ptr<fs::LocalLocks> locks{};  // null if there are none, or if the LOCKU will fail
  bool must_wait = false;                   // as in LockAttempt
};

LOCKU4res UnlockNow(Compound& compound, StateTables& state, const LOCKU4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const auto id = ResolveStateId(compound, arguments.lock_stateid);
  if (!id) return LOCKU4res(id.error());
  const auto found = FindOwn<LockState>(compound, state, *id, Principals::kMakers);
  if (!found) return LOCKU4res(found.error());
  LockState& locks = **found;

  const auto run = [&]() -> LOCKU4res {
    const auto range = LockRange::From(arguments.offset, arguments.length);
    if (!range) return LOCKU4res(NFS4ERR_INVAL);
    if (const auto status = state.files.CheckSeqid(who, locks, *id); status != NFS4_OK) return LOCKU4res(status);
    const auto status = state.files.locks.Unlock(locks, *range, who.dialect, compound.now());
    return status == NFS4_OK ? LOCKU4res(NFS4_OK, state.files.IdOf(locks)) : LOCKU4res(status);
  };
  const LOCKU4res results =
      RunInTurn<LOCKU4res>(compound.dialect, locks.owner->sequence, SequenceId(arguments.seqid), run);
  if (results.is_lock_stateid()) SetCurrentStateId(compound, results.lock_stateid());
  return results;
}

// Finds the locks that a LOCKU is about. Returns null if UnlockNow() would fail.
LockState* FindUnlockable(const Compound& compound, StateTables& state, const LOCKU4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const auto id = ResolveStateId(compound, arguments.lock_stateid);
  const auto found = id ? FindOwn<LockState>(compound, state, *id, Principals::kMakers) : std::unexpected(id.error());
  const auto range = LockRange::From(arguments.offset, arguments.length);
  if (!found || !range) return nullptr;
  LockState& locks = **found;
  const bool in_turn = !compound.dialect.counts_owner_seqids() ||
                       !AnswerOutOfTurn<LOCKU4res>(locks.owner->sequence, SequenceId(arguments.seqid));
  const bool succeeds =
      in_turn && state.files.CheckSeqid(who, locks, *id) == NFS4_OK && state.files.locks.HasRoomToUnlock(locks, *range);
  return succeeds ? &locks : nullptr;
}

// Releases a part of the range, if it has many locks and UnlockNow() would succeed.
bool UnlockPart(const Compound& compound, StateTables& state, const LOCKU4args& arguments) {
  LockState* const locks = FindUnlockable(compound, state, arguments);
  return locks && state.files.locks.UnlockPart(*locks, *LockRange::From(arguments.offset, arguments.length));
}

// If the LOCKU has local locks to release, begins a change of the file.
LocalUnlock PrepareUnlock(const Compound& compound, const LOCKU4args& arguments) {
  const NamedFile& file = compound.current->name();
  return compound.services.state.Run([&](StateTables& state) -> LocalUnlock {
    const LockState* const locks = FindUnlockable(compound, state, arguments);
    if (!locks || !locks->local) return {};
    if (compound.call.peer.loop && state.files.locks.IsChanging(file)) return {.must_wait = true};
    state.files.locks.BeginChange(file);
    return {.locks = locks->local};
  });
}

// The local locks are released, and UnlockNow() has run. If it has failed after all, the owner gets them back.
void EndLocalUnlock(const Compound& compound, StateTables& state, const LOCKU4args& arguments, const LocalUnlock& local,
                    bool done) {
  if (!local.locks) return;
  state.files.locks.EndChange(compound.current->name());
  const auto id = ResolveStateId(compound, arguments.lock_stateid);
  const auto locks = id ? state.files.Find<LockState>(PresenterOf(compound), *id, compound.current->handle())
                        : std::unexpected(id.error());
  const auto range = LockRange::From(arguments.offset, arguments.length);
  if (!done && locks && (*locks)->local == local.locks) Locks::RestoreLocally(**locks, *range);
}

}  // namespace

// RFC 8881 §18.12
Task<LOCKU4res> Unlock(Compound& compound, const LOCKU4args& arguments) {
  ChangeWait change(compound.call.peer.loop);
  for (;;) {
    const LocalUnlock local = PrepareUnlock(compound, arguments);
    if (local.must_wait) {
      co_await change.Once();
      continue;
    }
    if (local.locks) {
      const LockRange range = *LockRange::From(arguments.offset, arguments.length);
      local.locks->Unlock(range.first, range.last);
    }
    ManyLocks many(compound);
    co_await many.Release([&](StateTables& state) { return UnlockPart(compound, state, arguments); });
    const auto run = [&](StateTables& state) {
      many.End(state);
      LOCKU4res results = UnlockNow(compound, state, arguments);
      EndLocalUnlock(compound, state, arguments, local, results.status() == NFS4_OK);
      return results;
    };
    const LOCKU4res results = compound.services.state.Run(run);
    if (!IsNoRoom(results.status())) co_return results;
    if (!co_await MakeRoomForState(compound.services, compound.call.peer.loop)) co_return results;
  }
}

// RFC 7530 §16.37
RELEASE_LOCKOWNER4res ReleaseLockOwner(Compound& compound, const RELEASE_LOCKOWNER4args& arguments) {
  return compound.services.state.Run([&](StateTables& state) -> RELEASE_LOCKOWNER4res {
    const auto client = ClientOf(compound, state, arguments.lock_owner.clientid);
    if (!client) return {.status = client.error()};
    return {.status = state.files.locks.ReleaseLockOwner(*client, arguments.lock_owner.owner.bytes())};
  });
}

}  // namespace penstock::nfs::v4
