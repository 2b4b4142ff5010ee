#include "nfs/v4/operations/claims.h"

#include <utility>

#include "nfs/v4/operations/io_state.h"
#include "nfs/v4/state/state.h"

namespace penstock::nfs::v4 {

namespace {

FileClaims::Verdict ToVerdict(nfs4::nfsstat4 status) {
  switch (status) {
    case nfs4::NFS4_OK:
      return FileClaims::Verdict::kFree;
    case nfs4::NFS4ERR_LOCKED:
      return FileClaims::Verdict::kDenied;
    default:  // NFS4ERR_DELAY, NFS4ERR_GRACE
      return FileClaims::Verdict::kLater;
  }
}

struct UsesHold : FileClaims::Hold {
  explicit UsesHold(FileUses held) : uses(std::move(held)) {}
  FileUses uses;
};

}  // namespace

Claims::Claims(const Services& services) : FileClaims(services.state.claims()), services_(services) {}

uint64_t Claims::Mark() const { return services_.state.write_held().ended(); }

// RFC 8881 §10.4.3. A holder's writes reach the server before its delegation ends, so attributes that were read after
// that are current.
bool Claims::IsOutdated(const NamedFile& file, uint64_t mark) const {
  const WriteHeldFiles& held = services_.state.write_held();
  const size_t hash = NamedFileHash()(file);
  if (held.MayHave(hash) &&
      services_.state.RunInShard(Shard::Of(file), [&](ShardTables& state) { return state.WriteHolder(file); }))
    return true;
  return held.MayHaveEnded(hash, mark);
}

// The caller has no stateid and may be any client, even the holder of a delegation. It is treated like an anonymous
// request of version 4.0 (RFC 7530 §9.1.6, §10.4).
Task<nfs4::nfsstat4> Claims::Ask(Asker anybody, NamedFile file, Use use) {
  constexpr nfs4::stateid4 kAnonymous{};
  switch (use) {
    case Use::kReadAttributes:
      return Recall(anybody, file, std::nullopt, Delegations::Use::kRead);
    case Use::kRead:
      return CheckIo(anybody, kAnonymous, file, false);
    case Use::kWrite:
      return CheckIo(anybody, kAnonymous, file, true);
    case Use::kChange:
      return Recall(anybody, file, std::nullopt, Delegations::Use::kChange);
  }
  std::unreachable();
}

Task<FileClaims::Checked> Claims::Check(Loop* loop, NamedFile file, Use use) {
  FileUses uses;
  const Asker anybody{services_, loop, PresenterWithoutSession(), uses};
  const nfs4::nfsstat4 status = co_await Ask(anybody, file, use);
  Checked checked{.verdict = ToVerdict(status)};
  if (!uses.empty()) checked.hold = std::make_unique<UsesHold>(std::move(uses));
  co_return checked;
}

}  // namespace penstock::nfs::v4
