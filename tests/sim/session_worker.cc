#include "session_worker.h"

namespace penstock::simulation {

using namespace nfs4;  // NOLINT: the protocol's own names, RFC 8881
using client::Status;
using client::v4::GetHandle;

OPEN4args SessionWorker::MakeOpen(openflag4 how, open_claim4 claim, uint32_t access) const {
  if (session_.dialect().has_delegation_wants) access |= OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  return {.seqid = 0,
          .share_access = access,
          .share_deny = OPEN4_SHARE_DENY_NONE,
          .owner = {.clientid = session_.client(), .owner = {AsBytes(name())}},
          .openhow = how,
          .claim = claim};
}

// RFC 8881 §8.2.2: the seqid counts the executed OPENs. An open from before the restart that was not reclaimed is gone.
// A session of 2004 goes on over a restart. Its client sends the OPEN once more after it, because it cannot tell
// whether the first one was executed before or afterwards.
void SessionWorker::HandleOpened(File& file, const OPEN4res& opened, uint64_t first_epoch, uint64_t epoch) {
  const stateid4& stateid = opened.resok4().stateid;
  const bool sent_again = is_bound() && first_epoch != epoch;
  Expect(file.doubtful || repeated_ || sent_again || stateid.seqid == 1, "the server executed an OPEN more than once");
  file.doubtful = false;
  if (epoch != session_.epoch()) return;
  file.stateid = stateid;
  file.epoch = epoch;
}

Task<void> SessionWorker::OpenFile(nfs_fh4 directory, const std::string& name, File& file, uint32_t access) {
  uint64_t first_epoch = 0, epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    if (first_epoch == 0) first_epoch = epoch;
    return std::tuple(PUTFH4args{directory},
                      MakeOpen(openflag4(OPEN4_NOCREATE), open_claim4(CLAIM_NULL, component4(name)), access),
                      GetHandle());
  };
  auto reply = co_await Ask("OPEN", {}, build);
  if (reply) {
    HandleOpened(file, std::get<1>(reply->results), first_epoch, epoch);
    co_return HandleOpen(file, std::get<1>(reply->results));
  }
  file.doubtful = true;
  if (refused_) Unexpected("OPEN", client::Describe(*refused_));
}

// A second execution would fail with NFS4ERR_BAD_STATEID.
Task<void> SessionWorker::CloseFile(File& file) {
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = file.epoch;
    return std::tuple(PUTFH4args{file.handle}, CLOSE4args{.seqid = 0, .open_stateid = StateIdOf(file)});
  };
  auto reply = co_await Ask("CLOSE", {}, build);
  // The worker has reclaimed the open since the CLOSE, or the open is lost.
  if (file.epoch != epoch || !file.stateid) co_return;
  file.stateid.reset();
  if (reply) co_return;
  file.doubtful = true;
  if (refused_) Unexpected("CLOSE", client::Describe(*refused_));
}

// The rest of a request needs less than 560 octets. A WRITE of this length alone fits into the smallest requests, and a
// COMPOUND with it is split.
size_t SessionWorker::longest_write() const {
  return is_bound() ? std::min<size_t>(facts_.max_payload, session_.max_request() - 560) : facts_.max_payload;
}

size_t SessionWorker::longest_read() const {
  return is_bound() ? std::min<size_t>(facts_.max_payload, session_.max_response() - 88) : facts_.max_payload;
}

SessionWorker::Reclaimed SessionWorker::JudgeReclaim(std::optional<nfsstat4> status) {
  if (status == NFS4_OK) return Reclaimed::kYes;
  // Repeating a reclaim without a reply does no harm. If the session is lost again, a new reclaim phase follows.
  if (!status || status == NFS4ERR_DELAY || !reclaiming()) return Reclaimed::kAgain;
  // RFC 8881 §8.4.3: another client may have had a conflicting open or lock since.
  const bool late = status == NFS4ERR_NO_GRACE && facts_.may_be_silent;
  if (!late) Unexpected("reclaiming", client::Describe(static_cast<Status>(*status)));
  return Reclaimed::kNo;
}

// RFC 8881 §8.4.2.1: no other client can get a conflicting open before the worker has reclaimed its own.
Task<void> SessionWorker::ReclaimFile(File& file) {
  const uint64_t epoch = session_.epoch();
  while (reclaiming() && epoch == session_.epoch() && file.stateid && file.epoch != epoch) {
    const std::tuple operations(PUTFH4args{file.handle},
                                MakeOpen(openflag4(OPEN4_NOCREATE), open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE)));
    world_.Trace("{}: reclaims an open", name());
    auto reply = co_await session_.ReclaimCall([&] { return operations; }, "reclaiming");
    const Reclaimed judged = JudgeReclaim(reply ? std::optional(reply->status) : std::nullopt);
    if (judged == Reclaimed::kNo) file.stateid.reset();
    if (judged != Reclaimed::kYes) continue;
    file.stateid = std::get<1>(reply->results).resok4().stateid;
    file.epoch = epoch;
  }
}

}  // namespace penstock::simulation
