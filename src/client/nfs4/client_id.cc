#include "client/nfs4/client_id.h"

#include "base/log.h"

namespace penstock::client::v4 {

using nfs4::nfsstat4;

namespace {

// Whether this status says that the server may have lost the client's state (RFC 7530 §9.6.2, §9.6.3).
bool IsLoss(nfsstat4 status) {
  return status == nfsstat4::NFS4ERR_STALE_CLIENTID || status == nfsstat4::NFS4ERR_STALE_STATEID ||
         status == nfsstat4::NFS4ERR_EXPIRED;
}

}  // namespace

Task<Result<void>> ClientId::TakeStep(std::string_view what) {
  switch (lease_.next()) {
    case ClientIdLease::Step::kSetClientId:
      co_return co_await SetClientId(what);
    case ClientIdLease::Step::kConfirm:
      co_return co_await Confirm(what);
    case ClientIdLease::Step::kReclaim:
      co_await Reclaim();
      lease_.HandleReclaimed();
      break;
    case ClientIdLease::Step::kRenew:
      co_return co_await Renew(what);
    case ClientIdLease::Step::kReady:
      break;
  }
  co_return Result<void>();
}

// RFC 7530 §16.33
Task<Result<void>> ClientId::SetClientId(std::string_view what) {
  nfs4::SETCLIENTID4args arguments;
  arguments.client.verifier = options_.verifier;
  arguments.client.id = AsBytes(options_.owner);
  arguments.callback.cb_location = {"tcp", "0.0.0.0.0.0"};
  auto reply = co_await Bare(client_, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  const nfs4::SETCLIENTID4res& result = std::get<0>(reply->results);
  if (result.is_resok4()) {
    lease_.HandleSetClientId(result.resok4());
  } else if (reply->status != nfsstat4::NFS4ERR_DELAY) {
    co_return std::unexpected(v4::ErrorOf(reply->status, what));
  }
  co_return Result<void>();
}

// RFC 7530 §16.34
Task<Result<void>> ClientId::Confirm(std::string_view what) {
  const TimePoint sent = timers_.Now();
  const nfs4::SETCLIENTID_CONFIRM4args arguments{lease_.client(), lease_.confirmation()};
  auto reply = co_await Bare(client_, arguments, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  lease_.HandleConfirm(reply->status, sent);
  co_return Result<void>();
}

// RFC 7530 §16.28
Task<Result<void>> ClientId::Renew(std::string_view what) {
  const TimePoint sent = timers_.Now();
  const uint64_t epoch = lease_.epoch();
  auto reply = co_await Bare(client_, nfs4::RENEW4args{lease_.client()}, what);
  if (!reply) co_return std::unexpected(std::move(reply).error());
  lease_.HandleRenew(reply->status, epoch, sent);
  if (reply->status == nfsstat4::NFS4ERR_LEASE_MOVED) HandleLeaseMoved();
  co_return Result<void>();
}

Task<void> ClientId::RenewLease() {
  constexpr std::string_view kWhat = "renewing the lease";
  Result<void> renewed = co_await Renew(kWhat);
  // Lost state is reclaimed at once, because the grace period may end before the next use of a file.
  if (renewed) renewed = co_await Ready(kWhat);
  if (!renewed && !ended()) log::warn("{}", renewed.error().message);
}

// Whether a COMPOUND that failed because the server has lost the client's state is to be sent again when the state is
// established again.
bool ClientId::MayRepeat(const Compound& compound) const {
  // If the server has restarted again, the whole reclaim begins again. Otherwise only this reclaim has failed.
  if (compound.reclaims) return lease_.next() != ClientIdLease::Step::kReclaim;
  // An operation with a stateid goes back to its caller, because the reclaim replaces or loses the stateid.
  return !compound.has_state_id;
}

Task<Result<CompoundCaller::Executed>> ClientId::Execute(Compound& compound, std::string_view what) {
  const uint64_t epoch = lease_.epoch();
  nfs4::COMPOUND4res_head head;
  auto message = co_await client_.CallWith<nfs4::NFSPROC4_COMPOUND>(
      [&](xdr::Encoder& encoder) {
        xdr::Encode(encoder, nfs4::COMPOUND4args_head{{}, 0, compound.count});
        compound.Encode(encoder);
      },
      compound.shape,
      [&](xdr::Decoder& decoder) {
        return DecodeHead(decoder, compound.count, head) && compound.Decode(decoder, head.count);
      });
  answered_ = message.has_value();
  if (!message) co_return std::unexpected(v4::ErrorOf(message.error(), what));
  Executed executed{*std::move(message), head.status, head.count, Fate::kDone};
  if (head.status == nfsstat4::NFS4_OK) co_return executed;
  lease_.HandleStatus(head.status, epoch);
  if (IsLoss(head.status) && MayRepeat(compound)) executed.fate = Fate::kAgain;
  // RFC 7530 §13.1.1.3, §13.1.9.1
  if (head.status == nfsstat4::NFS4ERR_DELAY || head.status == nfsstat4::NFS4ERR_GRACE) executed.fate = Fate::kLater;
  // RFC 7530 §9.14.3: until the client has found what has moved, the server refuses all that renews the lease.
  if (head.status == nfsstat4::NFS4ERR_LEASE_MOVED) {
    HandleLeaseMoved();
    executed.fate = Fate::kLater;
  }
  co_return executed;
}

}  // namespace penstock::client::v4
