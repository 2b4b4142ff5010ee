#include <fmt/core.h>

#include "cli/client_runtime.h"
#include "cli/commands.h"
#include "rdma/verbs/traits.h"

namespace penstock::cli {

int Devices() {
  const auto devices = rdma::verbs::ListDevices();
  if (!devices) {
    PrintError(devices.error().message);
    return 1;
  }
  for (const rdma::verbs::Traits& device : *devices) fmt::print("{}\n", rdma::verbs::Describe(device));
  if (devices->empty()) fmt::print("none: software iWARP will be used\n");
  return 0;
}

}  // namespace penstock::cli
