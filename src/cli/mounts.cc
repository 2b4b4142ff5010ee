#include "cli/mounts.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/result.h"
#include "cli/output.h"
#include "client/error.h"

namespace penstock::cli {
namespace {

// Whether the URLs differ in nothing but the path.
bool HaveOneServer(const client::Url& one, client::Url other) {
  other.path = one.path;
  other.tls = one.tls;
  return one == other;
}

}  // namespace

std::string NameOf(const client::Url& url) {
  const bool is_ipv6 = url.host.contains(':');
  std::string name = fmt::format("nfs://{}{}{}", is_ipv6 ? "[" : "", url.host, is_ipv6 ? "]" : "");
  if (url.port != client::Url::DefaultPort(url.protocol)) name += fmt::format(":{}", url.port);
  return name + url.path;
}

// ---- Mounted ----

Task<client::Result<client::Node>> Mounted::Resolve(bool follow) const {
  auto node = co_await mount->Resolve(path, follow);
  if (!node) co_return std::unexpected(Named(std::move(node).error()));
  co_return node;
}

Task<client::Result<client::Mount::Place>> Mounted::ResolvePlace() const {
  auto place = co_await mount->ResolvePlace(path);
  if (!place) co_return std::unexpected(Named(std::move(place).error()));
  co_return place;
}

client::Error Mounted::Named(client::Error error) const {
  error = client::WithTrouble(std::move(error), mount->trouble());
  std::string& message = error.message;
  // The errors of a walk name an entry below the URL. Those of standard output have nothing to do with it.
  if (message.starts_with(name) || message.starts_with(kStandardOutput)) return error;
  const std::string_view last = std::string_view(path).substr(path.rfind('/') + 1);
  for (const std::string_view begin : {std::string_view(server_path), std::string_view(mount->url().path),
                                       std::string_view(path), last, std::string_view(mount->url().host)}) {
    if (begin.empty() || !message.starts_with(begin) || !message.substr(begin.size()).starts_with(": ")) continue;
    message.replace(0, begin.size(), name);
    return error;
  }
  message.insert(0, name + ": ");
  return error;
}

// ---- Mounts ----

Task<client::Result<Mounted>> Mounts::At(client::Url url) {
  for (;;) {
    for (const auto& mount : mounts_) {
      if (!HaveOneServer(mount->url(), url)) continue;
      auto path = mount->PathInExport(url.path);
      if (path) co_return Mounted{mount.get(), *std::move(path), url.path, NameOf(url)};
    }
    // The mount that another call opens may serve this URL.
    if (!opening_) break;
    co_await opened_;
  }
  opening_ = true;
  auto mount = co_await runtime_.OpenMount(url);
  opening_ = false;
  if (!mount) {
    opened_.Notify();
    client::Error error = std::move(mount).error();
    const std::string host = url.host + ": ";
    error.message.replace(0, error.message.starts_with(host) ? host.size() : 0, NameOf(url) + ": ");
    co_return std::unexpected(std::move(error));
  }
  client::Mount* const at = mount->get();
  mounts_.push_back(*std::move(mount));
  Mounted mounted{at, at->path(), url.path, NameOf(url)};
  opened_.Notify();
  co_return mounted;
}

Task<void> Mounts::Close() {
  auto mounts = std::exchange(mounts_, {});
  for (auto& mount : mounts) co_await runtime_.End(std::move(mount));
}

// ---- commands ----

namespace {

Task<client::Result<void>> WithPool(ClientRuntime& runtime, const std::vector<client::Url>& urls,
                                    const UseMounts& use) {
  Mounts mounts(runtime);
  client::Result<void> result = co_await use(runtime, mounts, urls);
  co_await mounts.Close();
  co_return result;
}

}  // namespace

Task<client::Result<void>> ForEachMounted(ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& urls,
                                          UseMount use) {
  for (const client::Url& url : urls) {
    const auto mounted = co_await mounts.At(url);
    if (!mounted) {
      runtime.Report(mounted.error());
      continue;
    }
    const client::Result<void> done = co_await use(runtime, *mounted);
    if (!done) runtime.Report(mounted->Named(done.error()));
  }
  co_return client::Result<void>();
}

int RunWithMounts(const std::vector<std::string>& urls, const ClientOptions& options, const UseMounts& use) {
  std::vector<client::Url> parsed;
  for (const std::string& text : urls) {
    auto url = ParseUrl(text, options);
    if (!url) return PrintUsageError(url.error().message);
    parsed.push_back(*std::move(url));
  }
  ClientRuntime runtime(options.trace, options.rdma, options.kerberos);
  return runtime.Run(WithPool(runtime, parsed, use));
}

int RunOnMounts(const std::vector<std::string>& urls, const ClientOptions& options, const UseMount& use) {
  return RunWithMounts(urls, options,
                       [&](ClientRuntime& runtime, Mounts& mounts, const std::vector<client::Url>& parsed) {
                         return ForEachMounted(runtime, mounts, parsed, use);
                       });
}

}  // namespace penstock::cli
