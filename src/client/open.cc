// Chooses the version of NFS that a mount speaks.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/pauses.h"
#include "base/workers.h"
#include "client/mount.h"
#include "client/nfs3/mount.h"
#include "client/nfs4/tree.h"
#include "client/set_up.h"

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

using OpenedMount = Result<std::unique_ptr<Mount>>;

// The flavors that the user accepts; empty: all.
nfs_protocol::SecurityFlavors AcceptedBy(const Url& url) {
  return url.security ? nfs_protocol::SecurityFlavors{*url.security} : url.flavors;
}

Task<OpenedMount> OpenOnce(Loop& loop, Workers& workers, const Url& url, const MountOptions& options) {
  if (url.version == Version::k3) co_return co_await v3::Open(loop, workers, url, options);
  auto mount = co_await v4::Open(loop, workers, url, DialectOf(url), options);
  if (mount || url.version || mount.error().status != Status::kVersionMismatch) co_return mount;
  if (url.tcp_port) {
    Error error = std::move(mount).error();
    error.message += "; proto=rdma+tcp needs version 4.1 or 4.2";
    co_return std::unexpected(std::move(error));
  }
  const nfs_protocol::SecurityFlavors flavors = AcceptedBy(url);
  const auto is_kerberos = [](nfs_protocol::SecurityFlavor flavor) { return !ServicesOf(flavor).empty(); };
  if (!flavors.empty() && std::ranges::all_of(flavors, is_kerberos)) {
    // Nothing protects an answer without results, and version 3 protects less: its MOUNT may have no security.
    Error error = std::move(mount).error();
    error.message += fmt::format("; with sec={}, vers=3 must be named to use version 3", flavors.ToString());
    co_return std::unexpected(std::move(error));
  }
  log::debug("{}: falling back to version 3", mount.error().message);
  co_return co_await v3::Open(loop, workers, url, options);
}

bool IsUnreachable(const OpenedMount& opened) {
  return !opened && !opened.error().status && IsOfConnection(opened.error().number);
}

}  // namespace

Task<OpenedMount> Mount::Open(Loop& loop, Workers& workers, const Url& url, MountOptions options) {
  const RetryPolicy policy = Limited(options.retry, url);
  const TimePoint give_up = loop.Now() + policy.give_up_after;
  Duration delay = policy.first_delay;
  bool was_told = false;
  for (;;) {
    OpenedMount opened = co_await OpenOnce(loop, workers, url, options);
    const Duration left = give_up - loop.Now();
    if (!options.waits_for_server || !IsUnreachable(opened) || left <= Duration::zero()) co_return opened;
    if (!std::exchange(was_told, true)) log::warn("{}; trying again", opened.error().message);
    co_await Pause(loop, std::min(delay, left), options.cancellation);
    if (IsCancelled(options.cancellation)) co_return std::unexpected(Closing(url.host));
    delay = std::min(2 * delay, policy.longest_delay);
  }
}

}  // namespace penstock::client
