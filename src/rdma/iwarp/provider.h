// iWARP in user space, over TCP sockets of the kernel.
#pragma once

#include <memory>

#include "base/accept_turns.h"
#include "base/loop.h"
#include "rdma/iwarp/options.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

struct ProviderState;

// `loop` must outlive it and its endpoints. Ignores SIGPIPE for the process, where nobody has decided about it: sendfile()
// cannot be told not to raise it.
class Provider : public rdma::Provider {
 public:
  explicit Provider(Loop& loop, const Options& options = {});
  // Gives up what is being set up; the waiting ends with kCancelled when the loop runs next.
  ~Provider() override;

  std::string_view name() const override { return "iwarp"; }
  BufferPool& buffers() override;
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;

  // The listener of an open listening socket, which has others as well: they take peers in turn.
  SetupResult<std::unique_ptr<Listener>> Adopt(int listening_socket, std::shared_ptr<AcceptTurns> turns);

 private:
  std::shared_ptr<ProviderState> state_;
};

}  // namespace penstock::rdma::iwarp
