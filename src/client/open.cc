// Chooses the version of NFS that a mount speaks.
#include <fmt/core.h>

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
  if (url.security && !ServicesOf(*url.security).empty()) {
    // Nothing protects an answer without results, and version 3 protects less: its MOUNT may have no security.
    Error error = std::move(mount).error();
    error.message += fmt::format("; with sec={}, vers=3 must be named to use version 3", NameOf(*url.security));
    co_return std::unexpected(std::move(error));
  }
  log::debug("{}: falling back to version 3", mount.error().message);
  co_return co_await v3::Open(loop, workers, url, options);
}

}  // namespace penstock::client
