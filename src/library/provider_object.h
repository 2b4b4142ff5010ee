// The object behind penstock_provider.
#pragma once

#include <memory>

#include "library/fork_mark.h"
#include "library/provider/host_provider.h"
#include "penstock/provider.h"
#include "rdma/choice/choice.h"

struct penstock_provider {
  const penstock::library::ForkMark mark;
  // Runtimes and servers have references as well.
  const std::shared_ptr<penstock::library::HostProvider> host;
};

namespace penstock::library {

// The choice of a runtime or a server that uses this provider. It holds a reference.
rdma::Choice ChoiceOf(const penstock_provider& provider);

}  // namespace penstock::library
