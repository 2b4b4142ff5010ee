#include "client/nfs4/file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

bool IsStateLost(std::optional<Status> status) {
  if (!status) return false;
  switch (static_cast<nfsstat4>(*status)) {
    case nfsstat4::NFS4ERR_BAD_STATEID:
    case nfsstat4::NFS4ERR_STALE_STATEID:
    case nfsstat4::NFS4ERR_EXPIRED:
    case nfsstat4::NFS4ERR_ADMIN_REVOKED:
      return true;
    default:
      return false;
  }
}

nfs4::OPEN4args MakeOpen(const CompoundCaller& caller, const StateOwner& owner, Access access) {
  nfs4::OPEN4args open;
  open.seqid = caller.SequenceOf(owner);
  open.share_access = static_cast<uint32_t>(access);
  if (caller.minor_version() > 0) open.share_access |= nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  open.share_deny = nfs4::OPEN4_SHARE_DENY_NONE;
  open.owner = {caller.client(), owner.octets()};
  return open;
}

// ---- open ----

template <class Build>
auto File::CallAsOwner(Build build) -> Task<Result<ReplyOf<decltype(build())>>> {
  auto reply = co_await mount_.caller().Call(std::move(build), name(), {},
                                             [this](const auto& said) { owner_.HandleStatus(StatusOf(said, 1)); });
  if (!reply && !reply.error().status) mount_.caller().HandleNoReply(owner_);
  co_return reply;
}

Task<Result<void>> File::Open() {
  for (int tries = 1;; ++tries) {
    Result<void> opened = co_await OpenOnce();
    // Lost between its OPEN and what has to follow: as if it had not been.
    if (opened || !IsStateLost(opened.error().status) || tries == kMostOpens) co_return opened;
  }
}

Task<Result<void>> File::OpenOnce() {
  CompoundCaller& caller = mount_.caller();
  const bool by_name = caller.minor_version() == 0;  // RFC 7530 §16.16.1: there is no CLAIM_FH
  if (by_name && node().name.empty()) {
    co_return std::unexpected(Error{fmt::format("{}: version 4.0 opens what has a name", name()), Status::kInvalid});
  }
  co_await turn_.Take();
  const Turn::Guard guard(turn_);
  if (owner_.spent()) owner_ = mount_.NewOwner({});
  uint64_t epoch = 0;
  auto reply = co_await CallAsOwner([&] {
    epoch = caller.epoch();
    nfs4::OPEN4args open = MakeOpen(caller, owner_, access_);
    open.claim = by_name ? nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_NULL, nfs4::component4(node().name))
                         : nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_FH);
    return std::tuple(nfs4::PUTFH4args{by_name ? node().directory : node().handle}, open, GetHandle());
  });
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const bool same = std::get<2>(reply->results).resok4().object == node().handle;
  PENSTOCK_CO_CHECK(co_await HandleOpened(std::get<1>(reply->results).resok4(), epoch));
  if (same) co_return Result<void>();
  // Another file has the name by now.
  PENSTOCK_CO_CHECK(co_await CloseOnce());
  co_return std::unexpected(v4::ErrorOf(nfsstat4::NFS4ERR_STALE, name()));
}

Task<Result<void>> File::HandleOpened(const nfs4::OPEN4resok& result, uint64_t epoch) {
  stateid_ = result.stateid;
  open_epoch_ = epoch;
  const bool confirm = result.rflags & nfs4::OPEN4_RESULT_CONFIRM;
  if (confirm) {
    Result<void> confirmed = co_await Confirm();
    if (!confirmed) {
      open_epoch_ = 0;
      co_return confirmed;
    }
  }
  co_return co_await GiveBack(result.delegation);
}

// RFC 7530 §16.18
Task<Result<void>> File::Confirm() {
  auto reply = co_await CallAsOwner([&] {
    return std::tuple(nfs4::PUTFH4args{node().handle},
                      nfs4::OPEN_CONFIRM4args{stateid_, mount_.caller().SequenceOf(owner_)});
  });
  if (!reply) co_return std::unexpected(std::move(reply).error());
  stateid_ = std::get<1>(reply->results).resok4().open_stateid;
  co_return Result<void>();
}

Task<Result<void>> File::GiveBack(const nfs4::open_delegation4& delegation) {
  nfs4::stateid4 held;
  switch (delegation.discriminant()) {
    case nfs4::open_delegation_type4::OPEN_DELEGATE_READ:
      held = delegation.read().stateid;
      break;
    case nfs4::open_delegation_type4::OPEN_DELEGATE_WRITE:
      held = delegation.write().stateid;
      break;
    default:
      co_return Result<void>();
  }
  auto returned = co_await mount_.caller().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::DELEGRETURN4args{held}); }, name());
  if (!returned) log::debug("{}", returned.error().message);
  co_return Result<void>();
}

Task<void> File::Reclaim() {
  if (open_epoch_ == 0) co_return;
  const bool reclaimed = co_await ReclaimOpen();
  if (reclaimed) {
    co_await locks_.Reclaim();
  } else {
    locks_.HandleLost();
  }
}

Task<bool> File::ReclaimOpen() {
  CompoundCaller& caller = mount_.caller();
  const uint64_t epoch = caller.epoch();
  if (owner_.spent()) owner_ = mount_.NewOwner({});
  nfs4::OPEN4args open = MakeOpen(caller, owner_, access_);
  open.claim =
      nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_PREVIOUS, nfs4::open_delegation_type4::OPEN_DELEGATE_NONE);
  const std::tuple operations(nfs4::PUTFH4args{node().handle}, open);
  auto reply = co_await caller.ReclaimCall(operations, name());
  if (!reply) {
    caller.HandleNoReply(owner_);
    log::debug("not reclaimed: {}", reply.error().message);
    co_return false;
  }
  owner_.HandleStatus(StatusOf(*reply, 1));
  if (reply->status != nfsstat4::NFS4_OK) {
    log::debug("not reclaimed: {}", v4::ErrorOf(reply->status, name()).message);
    co_return false;
  }
  stateid_ = std::get<1>(reply->results).resok4().stateid;
  open_epoch_ = epoch;
  co_return true;
}

Task<Result<void>> File::EnsureOpen() {
  while (!is_open()) {
    if (opening_) {
      co_await opened_;
      continue;
    }
    opening_ = true;
    Result<void> result = co_await Open();
    opening_ = false;
    opened_.Notify();
    if (!result) co_return result;
  }
  co_return Result<void>();
}

template <class Make>
auto File::Do(Make make, Bytes destination)
    -> Task<Result<CompoundReply<nfs4::PUTFH4args, decltype(make(std::declval<const nfs4::stateid4&>()))>>> {
  for (int tries = 1;; ++tries) {
    PENSTOCK_CO_CHECK(co_await EnsureOpen());
    nfs4::stateid4 used;
    const auto build = [&] {
      used = stateid_;
      return std::tuple(nfs4::PUTFH4args{node().handle}, make(used));
    };
    auto reply = co_await mount_.caller().Call(build, name(), destination);
    if (reply || !IsStateLost(reply.error().status) || tries == kMostOpens) co_return reply;
    // Where more than this has been lost, it is reclaimed now.
    PENSTOCK_CO_CHECK(co_await mount_.caller().Ready(name()));
    HandleLost(used);
  }
}

void File::HandleLost(const nfs4::stateid4& used) {
  // The first of those that have lost it says so.
  if (used != stateid_ || !is_open()) return;
  open_epoch_ = 0;
  locks_.HandleLost();
}

Task<Result<void>> File::Close() {
  if (open_epoch_ == 0) co_return Result<void>();
  co_await locks_.ReleaseAll();
  // Where the server has restarted, this finds out, and it is open once more.
  PENSTOCK_CO_CHECK(co_await mount_.caller().Ready(name()));
  if (!is_open() || owner_.spent()) co_return Result<void>();
  co_return co_await CloseOnce();
}

Task<Result<void>> File::CloseOnce() {
  auto reply = co_await CallAsOwner([&] {
    return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::CLOSE4args{mount_.caller().SequenceOf(owner_), stateid_});
  });
  open_epoch_ = 0;
  if (!reply && !IsStateLost(reply.error().status)) co_return std::unexpected(std::move(reply).error());
  co_return Result<void>();
}

// ---- data ----

Task<Result<File::ReadReply>> File::Read(uint64_t offset, Bytes into) {
  const auto count = static_cast<uint32_t>(std::min<size_t>(into.size(), mount_.transfer_sizes().read));
  auto reply = co_await Do([&](const nfs4::stateid4& stateid) { return nfs4::READ4args{stateid, offset, count}; },
                           into.first(count));
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::READ4resok& read = std::get<1>(reply->results).resok4();
  const ConstBytes data = read.data.bytes();
  if (data.size() > count || (data.empty() && !read.eof && count > 0)) co_return std::unexpected(Contradiction("READ"));
  if (data.data() != into.data()) CopyBytes(into, data);
  co_return ReadReply{static_cast<uint32_t>(data.size()), read.eof};
}

Task<Result<File::WriteReply>> File::Write(uint64_t offset, ConstBytes from) {
  const ConstBytes part = from.first(std::min<size_t>(from.size(), mount_.transfer_sizes().write));
  auto reply = co_await Do([&](const nfs4::stateid4& stateid) {
    return nfs4::WRITE4args{stateid, offset, nfs4::stable_how4::UNSTABLE4,
                            xdr::Payload<xdr::kUnbounded>::Borrowed(part)};
  });
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::WRITE4resok& written = std::get<1>(reply->results).resok4();
  if (written.count > part.size() || (written.count == 0 && !part.empty())) {
    co_return std::unexpected(Contradiction("WRITE"));
  }
  co_return WriteReply{written.count, written.writeverf};
}

Task<Result<Verifier>> File::Commit() {
  auto reply = co_await mount_.caller().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::COMMIT4args{0, 0}); }, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::get<1>(reply->results).resok4().writeverf;
}

}  // namespace penstock::client::v4
