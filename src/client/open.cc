// Chooses the version of NFS that a mount speaks.
#include "base/log.h"
#include "base/workers.h"
#include "client/mount.h"
#include "client/nfs3/mount.h"
#include "client/nfs4/tree.h"

namespace penstock::client {
namespace {

const v4::Dialect& DialectOf(const Url& url) {
  switch (url.version.value_or(Version::k41)) {
    case Version::k40:
      return v4::kVersion40;
    case Version::k42:
      return v4::kVersion42;
    case Version::kSess01:
      return v4::kSessionsOf2004;
    default:
      return v4::kVersion41;
  }
}

}  // namespace

Task<Result<std::unique_ptr<Mount>>> Mount::Open(Loop& loop, Workers& workers, const Url& url, MountOptions options) {
  if (url.version == Version::k3) co_return co_await v3::Open(loop, workers, url, options);
  auto mount = co_await v4::Open(loop, workers, url, DialectOf(url), options);
  if (mount || url.version || mount.error().status != Status::kVersionMismatch) co_return mount;
  log::debug("{}: falling back to version 3", mount.error().message);
  co_return co_await v3::Open(loop, workers, url, options);
}

}  // namespace penstock::client
