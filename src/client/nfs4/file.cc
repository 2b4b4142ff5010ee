#include "client/nfs4/file.h"

#include <algorithm>

#include "base/log.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfsstat4;

// How often an operation is tried again because the server did not know the stateid.
constexpr int kMostOpens = 3;

// The server does not know, or does not honour, the stateid any more (RFC 8881 §15.1.5, §8.4).
bool IsLost(std::optional<Status> status) {
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

}  // namespace

std::array<std::byte, 8> OwnerOctets(uint64_t owner) {
  std::array<std::byte, 8> octets;
  StoreBig(octets.data(), owner);
  return octets;
}

nfs4::OPEN4args MakeOpen(nfs4::clientid4 client, ConstBytes owner, Access access) {
  nfs4::OPEN4args open;
  open.share_access = static_cast<uint32_t>(access) | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  open.share_deny = nfs4::OPEN4_SHARE_DENY_NONE;
  open.owner = {client, owner};
  return open;
}

// ---- open ----

Task<Result<void>> File::Open() {
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = mount_.session().lease().epoch();
    nfs4::OPEN4args open = MakeOpen(mount_.session().lease().client(), owner_, access_);
    open.claim = nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_FH);
    return std::tuple(nfs4::PUTFH4args{node().handle}, open);
  };
  auto reply = co_await mount_.session().Call(build, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_await HandleOpened(std::get<1>(reply->results).resok4(), epoch);
  co_return Result<void>();
}

Task<void> File::HandleOpened(const nfs4::OPEN4resok& result, uint64_t epoch) {
  stateid_ = result.stateid;
  open_epoch_ = epoch;
  nfs4::stateid4 delegation;
  switch (result.delegation.discriminant()) {
    case nfs4::open_delegation_type4::OPEN_DELEGATE_READ:
      delegation = result.delegation.read().stateid;
      break;
    case nfs4::open_delegation_type4::OPEN_DELEGATE_WRITE:
      delegation = result.delegation.write().stateid;
      break;
    default:
      co_return;
  }
  auto returned = co_await mount_.session().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::DELEGRETURN4args{delegation}); }, name());
  if (!returned) log::debug("{}", returned.error().message);
}

Task<void> File::Reclaim() {
  if (open_epoch_ == 0) co_return;
  Session& session = mount_.session();
  const uint64_t epoch = session.lease().epoch();
  nfs4::OPEN4args open = MakeOpen(session.lease().client(), owner_, access_);
  open.claim =
      nfs4::open_claim4(nfs4::open_claim_type4::CLAIM_PREVIOUS, nfs4::open_delegation_type4::OPEN_DELEGATE_NONE);
  auto reply = co_await session.ReclaimCall(std::tuple(nfs4::PUTFH4args{node().handle}, open), name());
  if (!reply) {
    log::debug("not reclaimed: {}", reply.error().message);
    co_return;
  }
  stateid_ = std::get<1>(reply->results).resok4().stateid;
  open_epoch_ = epoch;
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
    auto reply = co_await mount_.session().Call(build, name(), destination);
    if (reply || !IsLost(reply.error().status) || tries == kMostOpens) co_return reply;
    // The first of those that have lost it says so.
    if (used == stateid_ && is_open()) open_epoch_ = 0;
  }
}

Task<Result<void>> File::Close() {
  if (is_open()) {
    auto reply = co_await mount_.session().Call(
        [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::CLOSE4args{0, stateid_}); }, name());
    open_epoch_ = 0;
    if (!reply && !IsLost(reply.error().status)) co_return std::unexpected(std::move(reply).error());
  }
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
  auto reply = co_await mount_.session().Call(
      [&] { return std::tuple(nfs4::PUTFH4args{node().handle}, nfs4::COMMIT4args{0, 0}); }, name());
  if (!reply) co_return std::unexpected(std::move(reply).error());
  co_return std::get<1>(reply->results).resok4().writeverf;
}

}  // namespace penstock::client::v4
