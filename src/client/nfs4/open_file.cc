#include "client/nfs4/open_file.h"

#include <fmt/core.h>

#include <cerrno>
#include <utility>

#include "base/log.h"
#include "client/nfs4/attributes.h"
#include "client/nfs4/names.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

bool IsStateLost(std::optional<Status> status) {
  if (!status) return false;
  switch (static_cast<nfsstat4>(*status)) {
    case nfsstat4::NFS4ERR_BAD_STATEID:
    case nfsstat4::NFS4ERR_STALE_STATEID:
    case nfsstat4::NFS4ERR_STALE_CLIENTID:  // of LOCK with a new owner, which has a client id (RFC 7530 §16.10.1)
    case nfsstat4::NFS4ERR_EXPIRED:
    case nfsstat4::NFS4ERR_ADMIN_REVOKED:
    case nfsstat4::NFS4ERR_DELEG_REVOKED:
      return true;
    default:
      return false;
  }
}

bool IsStateidOld(std::optional<Status> status) {
  return status && static_cast<nfsstat4>(*status) == nfsstat4::NFS4ERR_OLD_STATEID;
}

nfs4::OPEN4args MakeOpen(const CompoundCaller& caller, const StateOwner& owner, Access access,
                         Delegations::Wanted wanted) {
  nfs4::OPEN4args open;
  open.seqid = caller.SequenceOf(owner);
  open.share_access = static_cast<uint32_t>(access);
  if (wanted == Delegations::Wanted::kInstead) {
    open.share_access |= nfs4::OPEN4_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION;
  } else if (wanted == Delegations::Wanted::kNone && caller.dialect().has_delegation_wants) {
    open.share_access |= nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  }
  open.share_deny = nfs4::OPEN4_SHARE_DENY_NONE;
  open.owner = {caller.client(), owner.octets()};
  return open;
}

OpenFile::~OpenFile() {
  SetDelegation(nullptr);
  mount_.Remove(*this);
}

void OpenFile::SetDelegation(Delegations::Pointer delegation) {
  if (delegation_) delegation_->RemoveUser(*this);
  delegation_ = std::move(delegation);
  if (delegation_) delegation_->AddUser(*this);
}

// ---- open ----

template <class Build>
auto OpenFile::CallAsOwner(Build build) -> Task<Result<ReplyOf<decltype(build())>>> {
  auto reply = co_await caller().Call(std::move(build), name_, {},
                                      [this](const auto& said) { owner_.HandleStatus(StatusOf(said, 1)); });
  if (!reply && !reply.error().status) caller().HandleNoReply(owner_);
  co_return reply;
}

Task<Result<void>> OpenFile::Open() {
  access_ = needed_;
  for (int tries = 1;; ++tries) {
    SetDelegation(mount_.delegations().ForOpen(node_.handle, access_));
    if (delegation_) {
      attributes_at_open_ = mount_.delegations().AttributesAtOpen(node_.handle);
      was_open_ = true;
      co_return Result<void>();
    }
    co_await turn_.Take();
    const Turn::Guard guard(turn_);
    Result<void> opened = co_await OpenAtServer(nullptr);
    // If the state is lost between OPEN and OPEN_CONFIRM, begin again.
    if (opened || !IsStateLost(opened.error().status) || tries == kMostOpens) co_return opened;
  }
}

Task<Result<void>> OpenFile::OpenAgain() {
  Result<void> opened = co_await Open();
  if (opened || opened.error().status != Status::kAccess) co_return opened;
  log::debug("{}; it is used without an open", opened.error().message);
  was_open_ = true;
  unopened_epoch_ = caller().epoch();
  co_return Result<void>();
}

Task<Result<void>> OpenFile::OpenAtServer(const Delegation* delegation, const Node* widened) {
  const bool by_name = !caller().dialect().opens_by_filehandle;
  const Node& named = widened ? *widened : node_;
  if (by_name && named.name.empty()) {
    co_return std::unexpected(
        Error{fmt::format("{}: version {} opens files only by name", name_, caller().dialect().name), Status::kInvalid,
              EINVAL});
  }
  if (owner_.spent()) owner_ = mount_.NewOwner({});
  const Delegations::Asking asking(mount_.delegations());
  uint64_t epoch = 0;
  auto reply = co_await CallAsOwner([&] {
    epoch = caller().epoch();
    using Wanted = Delegations::Wanted;
    // An open that has more access must not end.
    const bool needs_open = widened && asking.wanted() == Wanted::kInstead;
    const Wanted wanted = delegation ? Wanted::kNone : needs_open ? Wanted::kToo : asking.wanted();
    nfs4::OPEN4args open = MakeOpen(caller(), owner_, access_, wanted);
    using Claim = nfs4::open_claim4;
    using enum nfs4::open_claim_type4;
    open.claim = delegation ? Claim(CLAIM_DELEG_CUR_FH, delegation->stateid())
                 : by_name  ? Claim(CLAIM_NULL, nfs4::component4(named.name))
                            : Claim(CLAIM_FH);
    return std::tuple(nfs4::PUTFH4args{(by_name ? named.directory : node_.handle).octets()}, open, GetHandle(),
                      nfs4::GETATTR4args{FileAttributes()});
  });
  if (!reply && by_name && widened && reply.error().status == Status::kNotFound) co_return NameIsWrong();
  if (!reply) co_return std::unexpected(std::move(reply).error());
  PENSTOCK_CO_TRY(const Node found, NodeOf(std::get<2>(reply->results), std::get<3>(reply->results), {}, name_));
  if (widened && found.handle != node_.handle) {
    // The open of this file stays.
    PENSTOCK_CO_CHECK(co_await CloseOther(found.handle, std::get<1>(reply->results).resok4().stateid));
    co_return NameIsWrong();
  }
  PENSTOCK_CO_CHECK(
      co_await HandleOpened(asking, std::get<1>(reply->results).resok4(), epoch, found.handle, found.attributes));
  if (found.handle == node_.handle) co_return Result<void>();
  // Another file has the name now.
  PENSTOCK_CO_CHECK(co_await CloseAtServer(found.handle));
  co_return std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_STALE, name_));
}

// Closes a file that this owner has opened by a name that is not that of this file.
Task<Result<void>> OpenFile::CloseOther(const Handle& other, const nfs4::stateid4& stateid) {
  auto reply = co_await CallAsOwner([&] {
    return std::tuple(nfs4::PUTFH4args{other.octets()}, nfs4::CLOSE4args{caller().SequenceOf(owner_), stateid});
  });
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

std::unexpected<Error> OpenFile::NameIsWrong() const {
  return std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_NOTSUPP, name_));
}

Task<Result<void>> OpenFile::HandleOpened(const Delegations::Asking& asking, const nfs4::OPEN4resok& result,
                                          uint64_t epoch, const Handle& opened, const Attributes& attributes) {
  const bool is_delegated_instead =
      asking.wanted() == Delegations::Wanted::kInstead && (result.rflags & nfs4::OPEN4_RESULT_NO_OPEN_STATEID) != 0;
  stateid_ = result.stateid;
  if (is_delegated_instead) stateid_ = kInvalidStateid;
  own_epoch_ = is_delegated_instead ? 0 : epoch;
  was_open_ = true;
  unopened_epoch_ = 0;
  attributes_at_open_ = attributes;
  mount_.HandleOpened(opened, attributes.file_system);
  SetDelegation(nullptr);
  mount_.delegations().HandleOpened(asking, opened, access_, result.delegation, epoch, attributes,
                                    is_delegated_instead ? this : nullptr);
  if (is_delegated_instead && !delegation_ && epoch == caller().epoch()) {
    co_return std::unexpected(
        Error{fmt::format("{}: the server gives neither an open nor a delegation", name_), std::nullopt, EPROTO});
  }
  if (!(result.rflags & nfs4::OPEN4_RESULT_CONFIRM)) co_return Result<void>();
  Result<void> confirmed = co_await Confirm(opened);
  if (!confirmed) own_epoch_ = 0;
  co_return confirmed;
}

// RFC 7530 §16.18
Task<Result<void>> OpenFile::Confirm(const Handle& opened) {
  auto reply = co_await CallAsOwner([&] {
    return std::tuple(nfs4::PUTFH4args{opened.octets()},
                      nfs4::OPEN_CONFIRM4args{stateid_, caller().SequenceOf(owner_)});
  });
  if (!reply) co_return std::unexpected(std::move(reply).error());
  stateid_ = std::get<1>(reply->results).resok4().open_stateid;
  co_return Result<void>();
}

Task<Result<void>> OpenFile::Claim(Delegation& delegation) {
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  // The file has been closed in the meantime, or has its own stateid.
  if (delegation_.get() != &delegation) co_return Result<void>();
  Result<void> opened = co_await OpenAtServer(&delegation);
  // If that fails, the next use of the file reports it.
  if (delegation_.get() == &delegation) SetDelegation(nullptr);
  co_return opened;
}

Task<Result<void>> OpenFile::EnsureOpen() {
  while (!is_open()) {
    if (opening_) {
      co_await opened_;
      continue;
    }
    opening_ = true;
    // A second OPEN of a file that is being reclaimed would make the stateids of requests under way old.
    Result<void> result = co_await caller().Ready(name_);
    if (result && !is_open()) {
      if (was_open_) {
        result = co_await OpenAgain();
      } else {
        result = co_await Open();
      }
    }
    opening_ = false;
    opened_.Notify();
    if (!result) co_return result;
  }
  co_return Result<void>();
}

Task<void> OpenFile::AwaitStateid() {
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
}

// RFC 8881 §18.16.3, RFC 7530 §16.16.4: an OPEN by the same owner adds its access to that of the open, whose stateid
// and locks stay.
Task<Result<void>> OpenFile::Widen(Node now) {
  PENSTOCK_CO_CHECK(co_await EnsureOwnOpen());
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  const Access needed = std::exchange(needed_, Access::kBoth);
  if (access_ == Access::kBoth) co_return Result<void>();
  const Access before = std::exchange(access_, Access::kBoth);
  Result<void> opened;
  if (owner_.spent()) {
    // The OPEN of another owner would be an open of its own.
    opened = std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_NOTSUPP, name_));
  } else {
    opened = co_await OpenAtServer(nullptr, &now);
  }
  if (!opened) {
    access_ = before;
    needed_ = needed;
  }
  co_return opened;
}

Task<Result<void>> OpenFile::EnsureOwnOpen() {
  PENSTOCK_CO_CHECK(co_await EnsureOpen());
  while (!has_own_open() && delegation_) {
    const Delegations::Pointer delegation = delegation_;
    PENSTOCK_CO_CHECK(co_await Claim(*delegation));
  }
  if (has_own_open() || !is_without_open()) co_return Result<void>();
  // The mode of the file may be another one now.
  Result<void> opened = co_await Open();
  if (!opened && opened.error().status == Status::kAccess) co_return std::unexpected(NeedsOpen());
  co_return opened;
}

void OpenFile::HandleLost(const nfs4::stateid4& used) {
  if (mount_.delegations().HandleLost(used)) return;
  // Only the first call that notices the loss has an effect.
  if (used != stateid_ || !has_own_open()) return;
  own_epoch_ = 0;
  mount_.Free(stateid_);
  locks_.HandleLost();
}

void OpenFile::AddStateids(std::vector<nfs4::stateid4>& stateids) const {
  if (!has_own_open()) return;
  stateids.push_back(stateid_);
  locks_.AddStateids(stateids);
}

void OpenFile::HandleRevoked(const nfs4::stateid4& revoked) {
  if (!has_own_open()) return;
  if (revoked.other == stateid_.other) {
    HandleLost(stateid_);
  } else {
    locks_.HandleRevoked(revoked);
  }
}

Error OpenFile::NeedsOpen() const { return v4::ErrorOf(nfsstat4::NFS4ERR_ACCESS, name_); }
Error OpenFile::LocksLost() const { return v4::ErrorOf(nfsstat4::NFS4ERR_EXPIRED, name_); }

const nfs4::stateid4& OpenFile::StateidFor(Access kind) const {
  const bool ours = (static_cast<uint8_t>(access_) & static_cast<uint8_t>(kind)) != 0;
  const Delegations::Pointer delegation = ours ? mount_.delegations().ForIo(node_.handle, kind) : nullptr;
  if (delegation) return delegation->stateid();
  static constexpr nfs4::stateid4 kAnonymous{};
  if (is_without_open() && ours) return kAnonymous;
  return delegation_ && !has_own_open() ? delegation_->stateid() : stateid_;
}

// ---- recovery ----

Task<Reclaimed> OpenFile::Reclaim() {
  if (own_epoch_ == 0 && !delegation_) co_return Reclaimed::kYes;
  const Delegations::Pointer held = mount_.delegations().ForReclaim(node_.handle);
  Reclaimed reclaimed = co_await ReclaimOpen(held);
  // The server may refuse only the delegation.
  if (reclaimed == Reclaimed::kNo && held) reclaimed = co_await ReclaimOpen(nullptr);
  if (reclaimed == Reclaimed::kLater) co_return reclaimed;
  SetDelegation(nullptr);
  if (reclaimed == Reclaimed::kYes) {
    co_await locks_.Reclaim();
  } else {
    locks_.HandleLost();
  }
  co_return locks_.has_lost() ? Reclaimed::kNo : reclaimed;
}

Task<Reclaimed> OpenFile::ReclaimOpen(Delegations::Pointer claimed) {
  uint64_t epoch = 0;
  if (owner_.spent()) owner_ = mount_.NewOwner({});
  using enum nfs4::open_delegation_type4;
  const auto type = !claimed ? OPEN_DELEGATE_NONE : claimed->writes() ? OPEN_DELEGATE_WRITE : OPEN_DELEGATE_READ;
  const auto build = [&] {
    epoch = caller().epoch();
    using Wanted = Delegations::Wanted;
    nfs4::OPEN4args open = MakeOpen(caller(), owner_, access_, claimed ? Wanted::kToo : Wanted::kNone);
    open.claim = nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_PREVIOUS, type);
    return std::tuple(nfs4::PUTFH4args{node_.handle.octets()}, open);
  };
  const auto observe = [this](const auto& said) { owner_.HandleStatus(StatusOf(said, 1)); };
  auto reply = co_await caller().ReclaimCall(build, name_, observe);
  if (!reply) {
    caller().HandleNoReply(owner_);
    log::debug("file not reclaimed: {}", reply.error().message);
    co_return Reclaimed::kNo;
  }
  if (reply->status != nfsstat4::NFS4_OK) {
    log::debug("file not reclaimed: {}", v4::ErrorOf(reply->status, name_).message);
    co_return ReclaimedBy(reply->status);
  }
  const nfs4::OPEN4resok& opened = std::get<1>(reply->results).resok4();
  stateid_ = opened.stateid;
  own_epoch_ = epoch;
  mount_.delegations().HandleReclaimed(claimed, node_.handle, access_, opened.delegation, epoch);
  co_return Reclaimed::kYes;
}

// ---- close ----

Task<Result<void>> OpenFile::Close() {
  if (own_epoch_ != 0) co_await locks_.ReleaseAll();
  // If the server has restarted, this notices it and reclaims the file.
  if (own_epoch_ != 0 || delegation_) PENSTOCK_CO_CHECK(co_await caller().Ready(name_));
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  SetDelegation(nullptr);
  if (!has_own_open() || owner_.spent()) co_return Result<void>();
  co_return co_await CloseAtServer(node_.handle);
}

Task<Result<void>> OpenFile::CloseAtServer(const Handle& opened) {
  auto reply = co_await CallAsOwner([&] {
    return std::tuple(nfs4::PUTFH4args{opened.octets()}, nfs4::CLOSE4args{caller().SequenceOf(owner_), stateid_});
  });
  const bool is_held = has_own_open();
  own_epoch_ = 0;
  if (reply) co_return Result<void>();
  // RFC 8881 §11.13.1: the server from which the file system has moved cannot close it, either.
  const bool has_moved = reply.error().status == Status::kMoved;
  if (!has_moved && !IsStateLost(reply.error().status)) co_return std::unexpected(std::move(reply).error());
  if (is_held) mount_.Free(stateid_);
  locks_.HandleLost();
  if (has_moved) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

}  // namespace penstock::client::v4
