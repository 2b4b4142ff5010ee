// The provider of software iWARP: MPA, DDP and RDMAP in user space, over TCP sockets of the kernel.
#pragma once

#include <memory>

#include "base/accept_turns.h"
#include "base/loop.h"
#include "rdma/iwarp/options.h"
#include "rdma/provider.h"

namespace penstock::rdma::iwarp {

struct ProviderState;

// `loop` must outlive the provider and its endpoints.
class Provider : public rdma::Provider {
 public:
  explicit Provider(Loop& loop, const Options& options = {});
  // Cancels connection set-up. Waiting calls end with kCancelled in the next turn of the loop.
  ~Provider() override;

  std::string_view name() const override { return "iwarp"; }
  uint32_t inline_data() const override { return kInlineData; }
  bool receives_hold_memory() const override { return false; }
  BufferPool& buffers() override;
  Task<ConnectResult> Connect(Address peer, ConnectOptions options) override;
  SetupResult<std::unique_ptr<Listener>> Listen(Address local) override;
  Task<ConnectResult> StepUp(ReleasedSocket socket, StepUpRole role, std::vector<std::byte> last_octets,
                             ConnectOptions options) override;

  // Makes another listener of a listening socket. The listeners of the socket take peers in turn.
  SetupResult<std::unique_ptr<Listener>> Adopt(int listening_socket, std::shared_ptr<AcceptTurns> turns);

 private:
  std::shared_ptr<ProviderState> state_;
};

}  // namespace penstock::rdma::iwarp
