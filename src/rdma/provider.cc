#include "rdma/provider.h"

#include <fmt/core.h>

#include "base/released_socket.h"

namespace penstock::rdma {

Task<ConnectResult> Provider::StepUp(ReleasedSocket /*socket*/, StepUpRole /*role*/,
                                     std::vector<std::byte> /*last_octets*/, ConnectOptions /*options*/) {
  std::string detail = fmt::format("{} makes no RDMA connections of TCP connections", name());
  co_return std::unexpected(ConnectError{ConnectError::Kind::kUnreachable, std::move(detail), {}});
}

}  // namespace penstock::rdma
