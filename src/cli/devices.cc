// penstock devices: lists the RDMA devices of this machine.
#include <CLI/CLI.hpp>
#include <string>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "cli/interface.h"
#include "cli/output.h"
#include "rdma/verbs/traits.h"

namespace penstock::cli {
namespace {

int Devices() {
  const auto devices = rdma::verbs::ListDevices();
  if (!devices) return PrintError(devices.error().message);
  std::string text;
  for (const rdma::verbs::Traits& device : *devices) text += rdma::verbs::Describe(device) + "\n";
  return PrintOutput(devices->empty() ? "no RDMA devices: Penstock uses software iWARP\n" : text);
}

}  // namespace

Command AddDevices(CLI::App& program) {
  CLI::App* const command =
      program.add_subcommand("devices", "List the RDMA devices, and how Penstock would use each of them");
  SetFooter(*command, "",
            {"# List the devices", "penstock devices", "# List them with debug messages", "penstock -vv devices"});
  return {command, Devices};
}

}  // namespace penstock::cli
