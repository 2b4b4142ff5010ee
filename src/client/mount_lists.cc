#include "client/mount_lists.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "client/set_up.h"
#include "protocol/mount.h"

namespace penstock::client {

using nfs_protocol::SecurityFlavor;

namespace {

// The protocol does not bound the lists, so the client does.
constexpr size_t kLongestList = 4 << 20;

rpc::ReplyBounds ListBounds() { return {.open = kLongestList, .results = {}}; }

}  // namespace

MountCalls::MountCalls(Loop& loop, MountService service, const Url& url)
    : loop_(loop),
      service_(std::move(service)),
      client_(*service_.channel, loop.buffers(), rpc::RandomXid(), SystemCredentialOf(url)) {}

Task<Result<std::unique_ptr<MountCalls>>> MountCalls::Open(Loop& loop, Workers& workers, const Url& url) {
  auto service = co_await OpenMountService(loop, workers, url, nullptr);
  if (!service) {
    co_return std::unexpected(
        Error{fmt::format("MOUNT: {}", service.error().message), std::nullopt, service.error().number});
  }
  co_return std::unique_ptr<MountCalls>(new MountCalls(loop, *std::move(service), url));
}

Task<Result<std::vector<ExportEntry>>> MountCalls::ListExports() {
  auto reply = co_await client_.Call<mount3::MOUNTPROC3_EXPORT>({}, ListBounds());
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), url().host));
  std::vector<ExportEntry> entries;
  for (const mount3::exportnode& node : reply->results) {
    ExportEntry entry{.path = std::string(node.ex_dir), .clients = {}};
    for (const mount3::groupnode& group : node.ex_groups) entry.clients.emplace_back(group.gr_name);
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, &ExportEntry::path);
  co_return entries;
}

Task<Result<std::vector<MountEntry>>> MountCalls::ListMounts() {
  auto reply = co_await client_.Call<mount3::MOUNTPROC3_DUMP>({}, ListBounds());
  if (!reply) co_return std::unexpected(ErrorOf(reply.error(), url().host));
  std::vector<MountEntry> entries;
  for (const mount3::mountbody& each : reply->results) {
    entries.push_back({.host = std::string(each.ml_hostname), .path = std::string(each.ml_directory)});
  }
  std::ranges::sort(entries, {}, [](const MountEntry& each) { return std::tie(each.path, each.host); });
  co_return entries;
}

Task<Result<std::vector<SecurityFlavor>>> MountCalls::FlavorsOf(const std::string& path) {
  auto mounted = co_await client_.Call<mount3::MOUNTPROC3_MNT>(path, {.open = 1024, .results = {}});
  if (!mounted) co_return std::unexpected(ErrorOf(mounted.error(), path));
  const mount3::mountstat3 status = mounted->results.fhs_status();
  // The numbers are those of nfsstat3 (RFC 1813 §5.1.5).
  if (status != mount3::mountstat3::MNT3_OK) {
    co_return std::unexpected(ErrorOf(static_cast<Status>(status), path));
  }
  std::vector<SecurityFlavor> flavors;
  for (const int32_t number : mounted->results.mountinfo().auth_flavors) {
    if (const auto flavor = nfs_protocol::FlavorNumbered(static_cast<uint32_t>(number))) flavors.push_back(*flavor);
  }
  (void)co_await client_.Call<mount3::MOUNTPROC3_UMNT>(path);
  co_return flavors;
}

Task<void> MountCalls::Close() { co_await Sleep(loop_, Duration::zero()); }

}  // namespace penstock::client
