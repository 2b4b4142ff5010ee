// OPEN, OPEN_CONFIRM, OPEN_DOWNGRADE, CLOSE, OPENATTR.
#include "nfs/v4/attributes/convert.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/local_leases.h"
#include "nfs/v4/operations/many_locks.h"
#include "nfs/v4/operations/open_target.h"
#include "nfs/v4/operations/share_arguments.h"
#include "nfs/v4/operations/stateful.h"

namespace penstock::nfs::v4 {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881

namespace {

// One OPEN, from its claim to its delegation.
class OpenRequest {
 public:
  OpenRequest(Compound& compound, const OPEN4args& arguments, ClientId client, const Share& share)
      : compound_(compound), arguments_(arguments), client_(client), share_(share), claim_(arguments.claim.claim()) {}

  Task<OPEN4res> Run();

 private:
  // The result of one attempt.
  struct Attempt {
    nfsstat4 status = NFS4_OK;
    std::vector<ClientId> holders{};  // the clients that cause the status
    Opens::OpenResult opened{};
    bool confirm = false;
    bool pinned = false;
  };

  nfsstat4 CheckTime(const StateTables& state) const;
  nfsstat4 CheckDelegation(const StateTables& state, const NamedFile& file) const;
  Attempt Try(StateTables& state, const OpenTarget& target, const fs::Pinned& pinned) const;
  Task<Attempt> Reserve(const OpenTarget& target);
  Task<nfsstat4> Truncate(const OpenTarget& target);
  Task<> LoadVersion(const OpenTarget& target, Delegations::DelegationRequest& request);
  bool IsCoveredBy(const open_delegation4& delegation) const;
  Task<bool> MayWrite(const OpenTarget& target);
  Task<Delegations::DelegationRequest> PrepareDelegation(const OpenTarget& target, bool confirm, bool writable);
  open_delegation4 Delegate(StateTables& state, Delegations::DelegationRequest request) const;
  OPEN4res Grant(const OpenTarget& target, const Attempt& attempt, const Delegations::DelegationRequest& request);

  bool is_reclaim() const { return claim_ == CLAIM_PREVIOUS; }
  // The delegation that is reclaimed with the open.
  std::optional<Delegations::Reclaimed> reclaimed() const {
    switch (is_reclaim() ? arguments_.claim.delegate_type() : OPEN_DELEGATE_NONE) {
      case OPEN_DELEGATE_READ:
      case OPEN_DELEGATE_READ_ATTRS_DELEG:
        return Delegations::Reclaimed{};
      case OPEN_DELEGATE_WRITE:
        return Delegations::Reclaimed{.write = true};
      case OPEN_DELEGATE_WRITE_ATTRS_DELEG:
        return Delegations::Reclaimed{.write = true, .has_times = true};
      default:
        return std::nullopt;
    }
  }
  bool reclaims_write() const { return reclaimed() && reclaimed()->write; }
  // Whether the OPEN has this flag of RFC 9754.
  bool has_flag(uint32_t flag) const {
    return compound_.dialect.has_open_arguments() && (arguments_.share_access & flag) != 0;
  }
  bool has_delegation() const { return claim_ == CLAIM_DELEGATE_CUR || claim_ == CLAIM_DELEG_CUR_FH; }
  Want want() const {
    return compound_.dialect.has_delegation_wants() ? *WantOf(compound_.dialect, arguments_.share_access)
                                                    : Want::kNoPreference;
  }
  TimePoint now() const { return compound_.now(); }
  NamedFile NameOf(const OpenTarget& target) const { return compound_.current->in().Name(target.object); }

  Compound& compound_;
  const OPEN4args& arguments_;
  const ClientId client_;
  const Share share_;
  const open_claim_type4 claim_;
};

// RFC 8881 §8.4.2.1, §9.11
nfsstat4 OpenRequest::CheckTime(const StateTables& state) const {
  return is_reclaim() ? state.clients.CheckReclaim(client_) : state.clients.CheckNew(client_, has_delegation());
}

// RFC 8881 §10.2.1: an open that was made under a delegation is claimed while the client holds the delegation, and
// within its rights.
nfsstat4 OpenRequest::CheckDelegation(const StateTables& state, const NamedFile& file) const {
  const stateid4& given = claim_ == CLAIM_DELEGATE_CUR ? arguments_.claim.delegate_cur_info().delegate_stateid
                                                       : arguments_.claim.oc_delegate_stateid();
  const auto id = ResolveStateId(compound_, given);
  if (!id) return id.error();
  const Presenter who{compound_.dialect, client_};
  const auto found = state.files.Find<DelegationState>(who, *id, file.handle);
  if (!found) return found.error();
  if (const nfsstat4 status = state.files.CheckSeqid(who, **found, *id); status != NFS4_OK) return status;
  return share_.writes() && !(*found)->write ? NFS4ERR_OPENMODE : NFS4_OK;
}

OpenRequest::Attempt OpenRequest::Try(StateTables& state, const OpenTarget& target, const fs::Pinned& pinned) const {
  // The server may have removed the client during the call of the file system.
  if (!state.clients.Find(client_)) return {compound_.dialect.errors().client_is_gone};
  // A grace period may have begun or ended meanwhile. Nobody can reclaim a file that did not exist before.
  if (const nfsstat4 status = CheckTime(state); status != NFS4_OK && !target.is_new) return {status};
  const NamedFile file = NameOf(target);
  if (has_delegation()) {
    if (const nfsstat4 status = CheckDelegation(state, file); status != NFS4_OK) return {status};
  }
  // RFC 8881 §9.7: check denials first, so that no delegation is recalled for an open that is denied.
  if (const auto denier = state.files.opens.FindShareConflict(file, share_)) {
    return {is_reclaim() ? NFS4ERR_RECLAIM_CONFLICT : NFS4ERR_SHARE_DENIED, {*denier}};
  }
  if (reclaimed() && !state.files.delegations.MayReclaimDelegation(client_, file, reclaims_write())) {
    return {NFS4ERR_RECLAIM_CONFLICT};
  }
  // RFC 8881 §18.16.4: the delegations that conflict with the open.
  const auto use = share_.writes() || target.truncate    ? Delegations::Use::kWrite
                   : share_.deny & OPEN4_SHARE_DENY_READ ? Delegations::Use::kDenyRead
                                                         : Delegations::Use::kRead;
  auto recall = state.files.delegations.RecallFor(file, client_, use, now());
  if (!recall.holders.empty()) return {NFS4ERR_DELAY, std::move(recall.holders)};

  OpenOwner* const owner = state.files.owners.GetOpenOwner(client_, arguments_.owner.owner.bytes(), now());
  if (!owner) return {state.files.opens.NoRoomToOpen(client_, compound_.dialect)};
  Attempt attempt;
  attempt.opened = state.files.opens.AddOpen(*owner, file, share_, pinned, compound_.dialect, now());
  attempt.status = attempt.opened.status;
  if (attempt.status != NFS4_OK) {
    state.files.owners.ReleaseOwner(*owner, now());
    return attempt;
  }
  // RFC 7530 §9.1.11: reclaims need no confirmation.
  if (is_reclaim() || !compound_.dialect.counts_owner_seqids()) owner->confirmed = true;
  attempt.confirm = !owner->confirmed;
  state.files.owners.AddMaker(*owner, Principal::Of(compound_.call.credential));
  attempt.pinned = state.files.opens.IsPinned(file);
  return attempt;
}

// Tries until the file is open, or until a conflicting client is alive.
Task<OpenRequest::Attempt> OpenRequest::Reserve(const OpenTarget& target) {
  const Object& object = *compound_.current;
  fs::Pinned pinned;
  for (;;) {
    const bool needs_pin = compound_.services.state.Run(
        [&](StateTables& state) { return !pinned && !state.files.opens.IsPinned(NameOf(target)); });
    if (needs_pin) {
      // If too many files are pinned, this one ends with its last name, as in version 3.
      auto pin = co_await object.file_system().Pin(object.context(), target.object);
      if (pin) pinned = object.in().Hold(*std::move(pin));
    }
    const auto run = [&](StateTables& state) {
      Attempt tried = Try(state, target, pinned);
      if (tried.status == NFS4_OK && target.truncate) {
        compound_.uses.Begin(compound_.services.state, state, NameOf(target));
      }
      return tried;
    };
    Attempt attempt = compound_.services.state.Run(run);
    if (attempt.status == NFS4_OK) co_return attempt;
    if (attempt.holders.empty()) {
      if (!co_await MakeRoomForState(compound_.services, compound_.call.peer.loop)) co_return attempt;
    } else {
      if (!co_await ForgetExpiredHolders(compound_, attempt.holders)) co_return attempt;
    }
  }
}

// The open is granted now, so no denial and no delegation conflicts.
Task<nfsstat4> OpenRequest::Truncate(const OpenTarget& target) {
  const Object& object = *compound_.current;
  if (object.read_only()) co_return NFS4ERR_ROFS;
  fs::NewAttributes empty;
  empty.size = 0;
  const auto changed =
      co_await object.file_system().SetAttributes(object.context(), target.object, empty, std::nullopt);
  co_return changed.result ? NFS4_OK : ToStatus(changed.result.error());
}

// Returns whether a write delegation may be granted. A client that only reads may want one (RFC 8881 §18.16.3), and
// then needs write permission.
Task<bool> OpenRequest::MayWrite(const OpenTarget& target) {
  const Object& object = *compound_.current;
  if (object.read_only()) co_return false;
  const bool asks = want() == Want::kWrite || reclaims_write();
  if (share_.writes() || !asks) co_return true;
  const auto access = co_await object.file_system().Access(object.context(), target.object, fs::kAccessModify);
  co_return access.result && (*access.result & fs::kAccessModify);
}

open_delegation4 OpenRequest::Delegate(StateTables& state, Delegations::DelegationRequest request) const {
  request.facts.can_call_back = state.CanCall(client_);
  if (reclaimed()) {
    const bool may_stay = request.facts.can_call_back && OffersDelegations(compound_);
    return state.files.delegations.ReclaimDelegation(client_, request.file, *reclaimed(), may_stay, compound_.dialect,
                                                     request.by, now());
  }
  return state.files.delegations.Delegate(request, now());
}

// Adds the file's change attribute and times if a write delegation may be granted: its holder counts from that value
// (RFC 8881 §10.4.3), and reports no earlier times (RFC 9754 §5).
Task<> OpenRequest::LoadVersion(const OpenTarget& target, Delegations::DelegationRequest& request) {
  if (!request.facts.offered || (!share_.writes() && !request.wants_times)) co_return;
  const Object& object = *compound_.current;
  const auto attributes = co_await object.file_system().GetAttributes(object.context(), target.object);
  if (!attributes) co_return;
  request.change = attributes->change;
  request.original = {attributes->atime, attributes->mtime};
}

// Whether the client can do everything under the delegation for which it opens the file, so that it does not need the
// open if it asks for only one of them (RFC 9754 §4).
bool OpenRequest::IsCoveredBy(const open_delegation4& delegation) const {
  if (share_.deny != 0 || is_reclaim() || has_delegation()) return false;
  if (share_.writes() && compound_.current->file_system().GetProperties().writers_need_pin) return false;
  if (delegation.is_write()) return true;
  return delegation.is_read() && !share_.writes();
}

// Collects the facts for granting a delegation, except for the state of clients and files.
Task<Delegations::DelegationRequest> OpenRequest::PrepareDelegation(const OpenTarget& target, bool confirm,
                                                                    bool writable) {
  // RFC 7530 §9.1.11: no delegation for an unconfirmed open.
  const bool offered = OffersDelegations(compound_) && !confirm && !is_reclaim() && !has_delegation();
  Delegations::DelegationRequest request{
      .client = client_,
      .file = NameOf(target),
      .dialect = compound_.dialect,
      .by = Principal::Of(compound_.call.credential),
      .facts = {.want = want(), .share = share_, .offered = offered, .writable = writable},
      .asked_by = compound_.request_name()};
  request.wants_times = has_flag(OPEN4_SHARE_ACCESS_WANT_DELEG_TIMESTAMPS);
  co_await LoadVersion(target, request);
  request.lease = co_await OpenLeaseFor(compound_, request, target.object);
  co_return request;
}

OPEN4res OpenRequest::Grant(const OpenTarget& target, const Attempt& attempt,
                            const Delegations::DelegationRequest& request) {
  uint32_t flags = OPEN4_RESULT_LOCKTYPE_POSIX | (attempt.confirm ? OPEN4_RESULT_CONFIRM : 0);
  if (compound_.dialect.reports_preserved_files() && attempt.pinned) flags |= OPEN4_RESULT_PRESERVE_UNLINKED;
  open_delegation4 delegation;
  stateid4 id = attempt.opened.stateid;
  stateid4 current = id;
  compound_.services.state.Run([&](StateTables& state) {
    const bool may_notify = compound_.dialect.has_lock_notices() && state.CanCall(client_);
    if (may_notify) flags |= OPEN4_RESULT_MAY_NOTIFY_LOCK;
    // A client that was removed meanwhile gets no delegation; its next request reports the loss. Nor does one get a
    // delegation whose open came just before a grace period began, or ended.
    if (state.clients.Find(client_) && CheckTime(state) == NFS4_OK) delegation = Delegate(state, request);
    const bool only_one = has_flag(OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION) && attempt.opened.is_new;
    if (!only_one || !IsCoveredBy(delegation)) return;
    state.files.opens.UndoOpen(attempt.opened, now());
    flags = (flags & ~OPEN4_RESULT_PRESERVE_UNLINKED) | OPEN4_RESULT_NO_OPEN_STATEID;
    id = {};
    current = delegation.is_write() ? delegation.write().stateid : delegation.read().stateid;
  });
  compound_.current.emplace(compound_.current->in(), target.object, compound_.call);
  SetCurrentStateId(compound_, current);
  return OPEN4res(NFS4_OK, OPEN4resok{.stateid = id,
                                      .cinfo = target.directory,
                                      .rflags = flags,
                                      .attrset = target.set.ToBitmap(),
                                      .delegation = delegation});
}

Task<OPEN4res> OpenRequest::Run() {
  // RFC 8881 §2.6.3.1.1.3: the operation that put the directory's filehandle left this check to OPEN. The file is in
  // the same export.
  if (const nfsstat4 status = compound_.RequireFlavor(*compound_.current); status != NFS4_OK)
    co_return OPEN4res(status);
  // Before a file is made.
  const nfsstat4 time = compound_.services.state.Run([&](StateTables& state) { return CheckTime(state); });
  if (time != NFS4_OK) co_return OPEN4res(time);
  const auto target = co_await FindOpenTarget(compound_, arguments_, share_);
  if (!target) co_return OPEN4res(target.error());
  compound_.lasting |= target->is_own || target->truncate;
  // RFC 8881 §8.4.3: the recovery store must have the client before it gets any state.
  const auto recorded = co_await RecordClient(compound_.services, compound_.call.peer.loop, client_);
  if (recorded != NFS4_OK) co_return OPEN4res(recorded);

  const bool writable = co_await MayWrite(*target);
  // RFC 8881 §8.4.2.1.1
  if (reclaims_write() && !writable) co_return OPEN4res(NFS4ERR_ACCESS);

  const Attempt attempt = co_await Reserve(*target);
  if (attempt.status != NFS4_OK) co_return OPEN4res(attempt.status);
  if (target->truncate) {
    if (const nfsstat4 status = co_await Truncate(*target); status != NFS4_OK) {
      compound_.services.state.Run([&](StateTables& state) { state.files.opens.UndoOpen(attempt.opened, now()); });
      co_return OPEN4res(status);
    }
    compound_.uses.End();  // so that this client may get a delegation
  }
  const Delegations::DelegationRequest request = co_await PrepareDelegation(*target, attempt.confirm, writable);
  co_return Grant(*target, attempt, request);
}

// Starts an OPEN in the order of its owner's sequence (RFC 7530 §9.1.7, §16.18.5). Returns the results if the OPEN must
// not be executed. Otherwise the owner is busy until FinishInTurn().
std::optional<OPEN4res> StartInTurn(Compound& compound, const OPEN4args& arguments, ClientId client) {
  return compound.services.state.Run([&](StateTables& state) -> std::optional<OPEN4res> {
    OpenOwner* const owner = state.files.owners.GetOpenOwner(client, arguments.owner.owner.bytes(), compound.now());
    if (!owner) return OPEN4res(NFS4ERR_RESOURCE);
    auto answer = AnswerOutOfTurn<OPEN4res>(owner->sequence, SequenceId(arguments.seqid));
    if (answer && answer->status() == NFS4_OK && owner->sequence.last().opened) {
      const nfsstat4 status = compound.MoveTo(*owner->sequence.last().opened);
      if (status != NFS4_OK) answer = OPEN4res(status);
    }
    const bool replayed = answer && answer->status() != NFS4ERR_BAD_SEQID && answer->status() != NFS4ERR_RESOURCE;
    if (!owner->confirmed && owner->sequence.used() && !owner->sequence.busy() && !replayed) {
      // The unconfirmed open was a retransmission of an old request. This is the actual one.
      state.files.opens.RestartOwner(*owner, compound.now());
      answer.reset();
    }
    if (!answer) owner->sequence.Start();
    return answer;
  });
}

void FinishInTurn(Compound& compound, const OPEN4args& arguments, ClientId client, const OPEN4res& results) {
  compound.services.state.Run([&](StateTables& state) {
    OpenOwner* const owner = state.files.owners.FindOpenOwner(client, arguments.owner.owner.bytes());
    if (!owner) return;  // removed with its client
    std::optional<FileHandle> opened;
    if (results.status() == NFS4_OK) opened = compound.current->handle();
    owner->sequence.Finish(SequenceId(arguments.seqid), results, opened);
    state.files.owners.ReleaseOwner(*owner, compound.now());
  });
}

Task<OPEN4res> Execute(Compound& compound, const OPEN4args& arguments, ClientId client) {
  const auto share = ShareOf(compound.dialect, arguments.share_access, arguments.share_deny);
  if (!share) co_return OPEN4res(NFS4ERR_INVAL);
  OpenRequest request(compound, arguments, client, *share);
  co_return co_await request.Run();
}

// Returns false for a claim, a type of delegation or a way of creation that the dialect does not define: they get
// NFS4ERR_BADXDR.
bool IsDefined(const OPEN4args& arguments, const Dialect& dialect) {
  if (!dialect.has_open_arguments() && arguments.claim.claim() == CLAIM_PREVIOUS &&
      arguments.claim.delegate_type() > OPEN_DELEGATE_NONE_EXT) {
    return false;
  }
  if (dialect.has_open_by_filehandle()) return true;
  const bool exclusive_1 =
      arguments.openhow.opentype() == OPEN4_CREATE && arguments.openhow.how().mode() == EXCLUSIVE4_1;
  return !exclusive_1 && arguments.claim.claim() <= CLAIM_DELEGATE_PREV;
}

}  // namespace

namespace {

// RFC 8881 §18.16
Task<OPEN4res> OpenFile(Compound& compound, const OPEN4args& arguments) {
  if (!IsDefined(arguments, compound.dialect)) co_return OPEN4res(NFS4ERR_BADXDR);
  const auto client = compound.services.state.Run(
      [&](StateTables& state) { return ClientOf(compound, state, arguments.owner.clientid); });
  if (!client) co_return OPEN4res(client.error());
  if (!compound.dialect.counts_owner_seqids()) co_return co_await Execute(compound, arguments, *client);

  for (;;) {
    auto answer = StartInTurn(compound, arguments, *client);
    if (!answer) break;
    if (answer->status() != NFS4ERR_RESOURCE) co_return *std::move(answer);
    if (!co_await MakeRoomForState(compound.services, compound.call.peer.loop)) co_return *std::move(answer);
  }
  OPEN4res results = co_await Execute(compound, arguments, *client);
  FinishInTurn(compound, arguments, *client, results);
  co_return results;
}

// The name of the file in the current directory; empty if the current filehandle is that of the file.
std::string_view NameIn(const open_claim4& claim) {
  switch (claim.claim()) {
    case CLAIM_NULL:
      return claim.file();
    case CLAIM_DELEGATE_CUR:
      return claim.delegate_cur_info().file;
    case CLAIM_DELEGATE_PREV:
      return claim.file_delegate_prev();
    default:
      return {};
  }
}

Task<OPEN4res> OpenAndRecord(Compound& compound, const OPEN4args& arguments) {
  const Object before = *compound.current;
  OPEN4res results = co_await OpenFile(compound, arguments);
  const nfsstat4 status = results.status();
  if (status != NFS4ERR_DELAY && status != NFS4ERR_GRACE) {
    before.file_system().RecordOpen(before.context(),
                                    {.at = before.object(),
                                     .name = NameIn(arguments.claim),
                                     .reads = (arguments.share_access & OPEN4_SHARE_ACCESS_READ) != 0,
                                     .writes = (arguments.share_access & OPEN4_SHARE_ACCESS_WRITE) != 0,
                                     .result = status == NFS4_OK ? std::string_view("ok") : XdrName(status)});
  }
  co_return results;
}

}  // namespace

Task<OPEN4res> Open(Compound& compound, const OPEN4args& arguments) {
  const bool is_recorded = compound.current->file_system().RecordsOpens();
  return is_recorded ? OpenAndRecord(compound, arguments) : OpenFile(compound, arguments);
}

// RFC 7530 §16.18
OPEN_CONFIRM4res ConfirmOpen(Compound& compound, const OPEN_CONFIRM4args& arguments) {
  const Presenter who = PresenterOf(compound);
  return compound.services.state.Run([&](StateTables& state) {
    const auto found = FindOwn<OpenState>(compound, state, arguments.open_stateid);
    if (!found) return OPEN_CONFIRM4res(found.error());
    OpenState& open = **found;
    return RunInTurn<OPEN_CONFIRM4res>(compound.dialect, open.owner->sequence, SequenceId(arguments.seqid), [&] {
      if (open.owner->confirmed) return OPEN_CONFIRM4res(NFS4ERR_BAD_STATEID);
      const nfsstat4 status = state.files.CheckSeqid(who, open, arguments.open_stateid);
      if (status != NFS4_OK) return OPEN_CONFIRM4res(status);
      open.owner->confirmed = true;
      open.Advance();
      return OPEN_CONFIRM4res(NFS4_OK, OPEN_CONFIRM4resok{.open_stateid = state.files.IdOf(open)});
    });
  });
}

// RFC 8881 §18.18
OPEN_DOWNGRADE4res DowngradeOpen(Compound& compound, const OPEN_DOWNGRADE4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const auto id = ResolveStateId(compound, arguments.open_stateid, true);
  if (!id) return OPEN_DOWNGRADE4res(id.error());
  return compound.services.state.Run([&](StateTables& state) {
    const auto found = FindOwn<OpenState>(compound, state, *id);
    if (!found) return OPEN_DOWNGRADE4res(found.error());
    OpenState& open = **found;
    if (!open.owner->confirmed) return OPEN_DOWNGRADE4res(NFS4ERR_BAD_STATEID);
    return RunInTurn<OPEN_DOWNGRADE4res>(compound.dialect, open.owner->sequence, SequenceId(arguments.seqid), [&] {
      const auto share = ShareOf(compound.dialect, arguments.share_access, arguments.share_deny);
      if (!share) return OPEN_DOWNGRADE4res(NFS4ERR_INVAL);
      nfsstat4 status = state.files.CheckSeqid(who, open, *id);
      if (status == NFS4_OK) status = state.files.opens.Downgrade(open, *share);
      if (status != NFS4_OK) return OPEN_DOWNGRADE4res(status);
      const stateid4 now = state.files.IdOf(open);
      SetCurrentStateId(compound, now);
      return OPEN_DOWNGRADE4res(NFS4_OK, OPEN_DOWNGRADE4resok{.open_stateid = now});
    });
  });
}

namespace {

CLOSE4res CloseNow(Compound& compound, StateTables& state, const CLOSE4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const SequenceId sequence(arguments.seqid);
  const auto id = ResolveStateId(compound, arguments.open_stateid, true);
  if (!id) return CLOSE4res(id.error());
  const auto found = FindOwn<OpenState>(compound, state, *id, Principals::kMakers);
  if (!found) {
    // A repeated CLOSE finds its open closed, and its owner still has the results.
    const bool counts = compound.dialect.counts_owner_seqids();
    const OpenOwner* const owner = counts ? state.files.owners.FindOwnerOfClosed(*id) : nullptr;
    const bool again = owner && owner->sequence.Judge<CLOSE4res>(sequence) == OwnerSequence::Verdict::kReplay;
    return again ? std::get<CLOSE4res>(owner->sequence.last().results) : CLOSE4res(found.error());
  }
  OpenState& open = **found;
  if (!open.owner->confirmed) return CLOSE4res(NFS4ERR_BAD_STATEID);
  return RunInTurn<CLOSE4res>(compound.dialect, open.owner->sequence, sequence, [&] {
    const nfsstat4 status = state.files.CheckSeqid(who, open, *id);
    if (status != NFS4_OK) return CLOSE4res(status);
    // If owners count their seqids, the tables keep the closed open for a repeated CLOSE. Otherwise the result is an
    // invalid stateid (RFC 8881 §18.2.4).
    state.files.opens.Close(open, compound.dialect, compound.now());
    const stateid4 now = compound.dialect.counts_owner_seqids() ? state.files.IdOf(open) : InvalidStateId();
    SetCurrentStateId(compound, now);
    return CLOSE4res(NFS4_OK, now);
  });
}

// Releases a part of the locks under the open, if they are many and CloseNow() would succeed.
bool ClosePart(const Compound& compound, StateTables& state, const CLOSE4args& arguments) {
  const Presenter who = PresenterOf(compound);
  const auto id = ResolveStateId(compound, arguments.open_stateid, true);
  const auto found = id ? FindOwn<OpenState>(compound, state, *id, Principals::kMakers) : std::unexpected(id.error());
  if (!found) return false;
  OpenState& open = **found;
  const bool in_turn = !compound.dialect.counts_owner_seqids() ||
                       !AnswerOutOfTurn<CLOSE4res>(open.owner->sequence, SequenceId(arguments.seqid));
  return open.owner->confirmed && in_turn && state.files.CheckSeqid(who, open, *id) == NFS4_OK &&
         state.files.opens.ClosePart(open);
}

// The CLOSE is over. If it has failed after all, because the client has used the open meanwhile, the open stays.
void EndClosing(const Compound& compound, StateTables& state, const CLOSE4args& arguments) {
  const auto id = ResolveStateId(compound, arguments.open_stateid, true);
  const auto open = id ? state.files.Find<OpenState>(PresenterOf(compound), *id, compound.current->handle())
                       : std::unexpected(id.error());
  if (!open) return;
  (*open)->closing = false;
  if ((*open)->file) state.files.locks.TellWaiters(*(*open)->file, compound.now());
}

}  // namespace

// RFC 8881 §18.2. The locks under the open end with it.
Task<CLOSE4res> Close(Compound& compound, const CLOSE4args& arguments) {
  ManyLocks many(compound);
  co_await many.Release([&](StateTables& state) { return ClosePart(compound, state, arguments); });
  co_return compound.services.state.Run([&](StateTables& state) {
    CLOSE4res results = CloseNow(compound, state, arguments);
    if (many.End(state)) EndClosing(compound, state, arguments);
    return results;
  });
}

// RFC 8881 §18.17: named attributes are not supported.
Task<OPENATTR4res> OpenAttributes(Compound& /*compound*/, const OPENATTR4args& /*arguments*/) {
  co_return OPENATTR4res{.status = NFS4ERR_NOTSUPP};
}

}  // namespace penstock::nfs::v4
