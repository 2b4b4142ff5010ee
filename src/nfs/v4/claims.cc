#include "nfs/v4/claims.h"

#include <utility>

#include "nfs/v4/io_state.h"
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

}  // namespace

Claims::Claims(const Services& services) : FileClaims(services.state.claims()), services_(services) {}

// Who asks has no stateid, and may be anybody, the holder of a delegation included: as an anonymous request of version 4.0
// (RFC 7530 §9.1.6, §10.4).
Task<FileClaims::Verdict> Claims::Check(Loop* loop, FileHandle file, Use use) {
  const Asker anybody{services_, loop, Presenter{}};
  constexpr nfs4::stateid4 kAnonymous{};
  switch (use) {
    case Use::kReadAttributes:
      co_return ToVerdict(co_await Recall(anybody, file, std::nullopt, Files::Use::kRead));
    case Use::kRead:
      co_return ToVerdict(co_await CheckIo(anybody, kAnonymous, file, false));
    case Use::kWrite:
      co_return ToVerdict(co_await CheckIo(anybody, kAnonymous, file, true));
    case Use::kChange:
      co_return ToVerdict(co_await Recall(anybody, file, std::nullopt, Files::Use::kChange));
  }
  std::unreachable();
}

}  // namespace penstock::nfs::v4
