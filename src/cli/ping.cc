#include <fmt/core.h>

#include "cli/client_runtime.h"
#include "cli/commands.h"

namespace penstock::cli {
namespace {

Task<client::Result<void>> PingTask(client::Mount& mount, const PingOptions& options) {
  const client::Url& url = mount.url();
  for (unsigned i = 0; i < options.count; ++i) {
    if (i > 0) co_await Sleep(mount.loop(), std::chrono::milliseconds(options.interval_ms));
    const TimePoint sent = mount.loop().Now();
    PENSTOCK_CO_CHECK(co_await mount.Ping());
    const std::chrono::duration<double, std::micro> took = mount.loop().Now() - sent;
    fmt::print("{}: NFS version {} over {}: answered in {:.0f} us\n", url.host, mount.version(),
               url.protocol == client::Protocol::kRdma ? "RDMA" : "TCP", took.count());
    std::fflush(stdout);
  }
  co_return client::Result<void>();
}

}  // namespace

int Ping(const PingOptions& options) {
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime&, client::Mount& mount) { return PingTask(mount, options); });
}

}  // namespace penstock::cli
