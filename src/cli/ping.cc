// penstock ping: measures how long a server takes to answer NULL calls.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/mounts.h"
#include "cli/output.h"

namespace penstock::cli {
namespace {

struct PingOptions : ClientOptions {
  std::string url;
  unsigned count = 4;
  unsigned interval_ms = 1000;
};

// The transport that the calls use, and for proto=stepup why it is this one.
std::string_view DescribeTransport(const client::Mount& mount) {
  const bool is_rdma = mount.transport() == client::Protocol::kRdma;
  if (mount.url().protocol != client::Protocol::kStepUp) return is_rdma ? "RDMA" : "TCP";
  return is_rdma ? "RDMA (stepped up from TCP)" : "TCP (the server does not step up)";
}

Task<client::Result<void>> PingTask(client::Mount& mount, const PingOptions& options) {
  const client::Url& url = mount.url();
  for (unsigned i = 0; i < options.count; ++i) {
    if (i > 0) co_await Sleep(mount.loop(), std::chrono::milliseconds(options.interval_ms));
    const TimePoint sent = mount.loop().Now();
    PENSTOCK_CO_CHECK(co_await mount.Ping());
    const std::chrono::duration<double, std::micro> took = mount.loop().Now() - sent;
    PENSTOCK_CO_CHECK(Print("{}: NFS version {} over {}: answered in {:.0f} us\n", url.host, mount.version(),
                            DescribeTransport(mount), took.count()));
    PENSTOCK_CO_CHECK(FlushOutput());
  }
  co_return client::Result<void>();
}

int Ping(const PingOptions& options) {
  return RunOnMounts({options.url}, options,
                     [&](ClientRuntime&, const Mounted& at) { return PingTask(*at.mount, options); });
}

}  // namespace

Command AddPing(CLI::App& program) {
  CLI::App* const command = program.add_subcommand("ping", "Measure how long an NFS server takes to answer NULL calls");
  const auto options = std::make_shared<PingOptions>();
  command->add_option("URL", options->url, "nfs://HOST[:PORT]/PATH[?proto=rdma|tcp|stepup]")->required();
  command->add_option("-c,--count", options->count, "Send this many calls")->capture_default_str();
  command->add_option("-i,--interval", options->interval_ms, "Wait this many milliseconds between calls")
      ->capture_default_str();
  AddClientOptions(*command, *options);
  SetFooter(*command, "",
            {"# Does the server answer over RDMA?", "penstock ping 'nfs://server.example/?proto=rdma'",
             "# Send a thousand calls, one after the other", "penstock ping -c 1000 -i 0 nfs://server.example/"});
  return {command, [options] { return Ping(*options); }};
}

}  // namespace penstock::cli
