#include "nfs4_sharer.h"

#include <algorithm>
#include <utility>

namespace penstock::simulation {

using namespace nfs4;  // NOLINT: the protocol's own names
using std::chrono::milliseconds;

namespace {

constexpr size_t kSize = 100;  // octets of a shared file

bool IsStateLost(client::Status status) {
  const auto number = static_cast<nfsstat4>(status);
  return number == NFS4ERR_BAD_STATEID || number == NFS4ERR_EXPIRED || number == NFS4ERR_STALE_STATEID ||
         number == NFS4ERR_ADMIN_REVOKED;
}

}  // namespace

Nfs4Sharer::Nfs4Sharer(rdma::sim::World& world, Findings& findings, Facts facts, SessionUse session, Shares shares,
                       BoundClient& client)
    : SessionWorker(world, findings, std::move(facts), std::move(session)),
      shares_(std::move(shares)),
      holder_(shares_.book.AddHolder(name(), shares_.keeps)) {
  for (const auto& [file, handle] : shares_.files) files_.push_back({.name = file, .open = {.handle = handle}});
  client.Add(*this);
}

Task<void> Nfs4Sharer::Act() {
  const size_t index = world_.random().Below(files_.size());
  if (!files_[index].open.stateid) return Open(index);
  switch (world_.random().Below(8)) {
    case 0:
    case 1:
      return Close(index);
    case 2:
      return Return(index);
    case 3:
      if (files_[index].writes) return Write(index);
      [[fallthrough]];
    default:
      return Read(index);
  }
}

Task<void> Nfs4Sharer::Finish() {
  for (size_t index = 0; index < files_.size(); ++index) {
    co_await Close(index);
    co_await Return(index);
    while (files_[index].returning && findings_.empty()) co_await Sleep(world_, milliseconds(1));
  }
}

// ---- the book ----

template <class Function>
void Nfs4Sharer::ForSpans(bool own, Function function) const {
  const size_t unit = shares_.unit;
  if (own) return function(LockBook::Span{unit, unit});
  if (unit > 0) function(LockBook::Span{0, unit - 1});
  if (unit + 1 < LockBook::kUnits) function(LockBook::Span{unit + 1, LockBook::kUnits - 1});
}

void Nfs4Sharer::Enter(size_t index, bool own, Grade grade) {
  ForSpans(own, [&](LockBook::Span span) {
    const std::string other = shares_.book.HandleGranted(holder_, index, span, grade);
    if (!other.empty()) Unexpected(own ? "OPEN" : "a delegation", fmt::format("{} has a conflicting one", other));
  });
}

void Nfs4Sharer::Leave(size_t index, bool own) {
  ForSpans(own, [&](LockBook::Span span) { shares_.book.HandleUnlocking(holder_, index, span); });
}

void Nfs4Sharer::Left(size_t index, bool own) {
  ForSpans(own, [&](LockBook::Span span) { shares_.book.HandleUnlocked(holder_, index, span); });
}

// The open and the delegation are gone, because the lease has expired.
void Nfs4Sharer::Lose(size_t index) {
  SharedFile& file = files_[index];
  world_.Trace("{}: the state of {} is lost", name(), file.name);
  file.delegation.reset();
  file.seen.reset();
  Expect(shares_.book.HandleLost(holder_, index), "the server lost a delegation or an open that it had to keep");
}

void Nfs4Sharer::HandleLeaseOver() {
  ++leases_over_;
  shares_.book.Doubt(holder_);
  for (SharedFile& file : files_) file.seen.reset();
}

// ---- requests ----

size_t Nfs4Sharer::IndexOf(const File& file) const {
  const auto found = std::ranges::find_if(files_, [&](const SharedFile& each) { return &each.open == &file; });
  return static_cast<size_t>(found - files_.begin());
}

Task<void> Nfs4Sharer::Open(size_t index) {
  SharedFile& file = files_[index];
  // One delegation at a time: the server answers an OPEN under a delegation in other ways.
  if (file.delegation || file.returning) {
    co_await Return(index);
    co_return co_await Sleep(world_, milliseconds(1));
  }
  // If the last OPEN or CLOSE had no reply, the server may have the file open for writing.
  file.leases_over = leases_over_;
  file.writes = file.open.doubtful || world_.random().Chance(0.4);
  const uint32_t access = file.writes ? OPEN4_SHARE_ACCESS_BOTH : OPEN4_SHARE_ACCESS_READ;
  co_await OpenFile(shares_.directory, file.name, file.open, access);
  if (!file.open.stateid) Leave(index, true);
}

void Nfs4Sharer::HandleOpen(File& file, const OPEN4res& opened) {
  // The reply is that of an earlier epoch: the server has forgotten the open and the delegation.
  if (!file.stateid || file.epoch != session_.epoch()) return;
  const size_t index = IndexOf(file);
  SharedFile& shared = files_[index];
  // The reply may be a kept one, from before the lease has expired: then the delegation may be revoked already.
  const bool is_certain = shared.leases_over == leases_over_;
  if (is_certain) Enter(index, true, shared.writes ? Grade::kExclusive : Grade::kShared);
  const open_delegation4& given = opened.resok4().delegation;
  if (given.is_read()) shared.delegation = given.read().stateid;
  if (given.is_write()) shared.delegation = given.write().stateid;
  if (!shared.delegation) return;
  world_.Trace("{}: has a {} delegation of {}", name(), given.is_write() ? "write" : "read", shared.name);
  if (is_certain) Enter(index, false, given.is_write() ? Grade::kExclusive : Grade::kShared);
}

Task<void> Nfs4Sharer::Read(size_t index) {
  SharedFile& file = files_[index];
  const auto delegation = file.delegation;
  const uint64_t before = session_.epoch();
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    return std::tuple(PUTFH4args{file.open.handle}, READ4args{StateIdOf(file.open), 0, kSize});
  };
  auto reply = co_await Ask("READ", {}, build);
  if (!reply && IsOutdated(epoch)) co_return;
  if (!reply && refused_ && IsStateLost(*refused_)) {
    Lose(index);
    co_return co_await Close(index);
  }
  if (!reply && refused_ && !IsDisksFault(*refused_)) co_return Unexpected("READ", client::Describe(*refused_));
  // While the client has held the delegation without a break, the file must have the contents that it has read before.
  if (!reply || !delegation || delegation != file.delegation || before != session_.epoch() || !shares_.keeps())
    co_return;
  const std::string content(std::get<1>(reply->results).resok4().data.text());
  if (file.seen) Expect(*file.seen == content, "a file has changed under a delegation");
  file.seen = content;
}

Task<void> Nfs4Sharer::Write(size_t index) {
  SharedFile& file = files_[index];
  file.seen.reset();
  std::string text = Text(kSize);
  text.resize(kSize, '-');
  uint64_t epoch = 0;
  const auto build = [&] {
    epoch = session_.epoch();
    return std::tuple(PUTFH4args{file.open.handle},
                      WRITE4args{StateIdOf(file.open), 0, FILE_SYNC4, xdr::Payload<>::Borrowed(text)});
  };
  const auto reply = co_await Ask("WRITE", {}, build);
  if (!reply && IsOutdated(epoch)) co_return;
  if (!reply && refused_ && IsStateLost(*refused_)) {
    Lose(index);
    co_return co_await Close(index);
  }
  if (!reply && refused_ && !IsDisksFault(*refused_)) Unexpected("WRITE", client::Describe(*refused_));
}

Task<void> Nfs4Sharer::Close(size_t index) {
  SharedFile& file = files_[index];
  Leave(index, true);
  while ((file.open.stateid || file.open.doubtful) && findings_.empty()) {
    if (file.open.stateid) {
      co_await CloseFile(file.open);
      continue;
    }
    co_await Open(index);
    Leave(index, true);
  }
  Left(index, true);
}

bool Nfs4Sharer::HandleRecall(const stateid4& delegation) {
  for (size_t index = 0; index < files_.size(); ++index) {
    const auto& held = files_[index].delegation;
    if (!held || held->other != delegation.other) continue;
    world_.Trace("{}: the delegation of {} is recalled", name(), files_[index].name);
    Spawn(Return(index));
    return true;
  }
  return false;
}

Task<void> Nfs4Sharer::Return(size_t index) {
  SharedFile& file = files_[index];
  const auto delegation = std::exchange(file.delegation, std::nullopt);
  if (!delegation) co_return;
  file.returning = true;
  file.seen.reset();
  Leave(index, false);
  const uint64_t epoch = session_.epoch();
  bool done = false;
  while (!done && findings_.empty() && epoch == session_.epoch()) {
    const auto reply = co_await Ask("DELEGRETURN", {}, PUTFH4args{file.open.handle}, DELEGRETURN4args{*delegation});
    done = reply || (refused_ && IsStateLost(*refused_));
    if (!done && refused_ && !IsDisksFault(*refused_)) Unexpected("DELEGRETURN", client::Describe(*refused_));
  }
  Left(index, false);
  file.returning = false;
}

// The delegations are gone; the sharer does not reclaim them.
Task<void> Nfs4Sharer::Reclaim() {
  for (size_t index = 0; index < files_.size(); ++index) {
    SharedFile& file = files_[index];
    file.seen.reset();
    if (file.delegation) {
      file.delegation.reset();
      Left(index, false);
    }
    if (!file.open.stateid || file.open.epoch == session_.epoch()) continue;
    co_await ReclaimFile(file.open);
    if (!findings_.empty()) co_return;
    if (!file.open.stateid) Lose(index);
  }
}

}  // namespace penstock::simulation
