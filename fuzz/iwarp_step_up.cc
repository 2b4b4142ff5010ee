// Feeds octets to a connection that steps up, behind the grant: some were read ahead, the others come by the socket,
// and then the stream ends. If they start MPA, the rest reaches the endpoint.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdlib>
#include <memory>
#include <optional>

#include "base/loop.h"
#include "base/released_socket.h"
#include "input.h"
#include "rdma/iwarp/provider.h"

using namespace penstock;        // NOLINT: a program of its own
using namespace penstock::rdma;  // NOLINT

namespace {

constexpr size_t kMostOctets = 4096;  // fit the buffer of a socket
constexpr uint64_t kReceives = 3;

void Check(bool condition) {
  if (!condition) std::abort();
}

// Runs the loop until `done` is true. A run that takes longer than the time limits is a defect.
template <class Done>
void TurnUntil(Loop& loop, const Done& done) {
  const TimePoint limit = loop.Now() + std::chrono::seconds(20);
  while (!done()) {
    Check(loop.Now() < limit);
    loop.context().restart();
    loop.context().run_one_for(std::chrono::milliseconds(1));
  }
}

void StepUp(StepUpRole role, ConstBytes read_ahead, ConstBytes octets) {
  int pair[2];
  Check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
  const FileDescriptor peer(pair[1]);
  Check(::send(peer.get(), octets.data(), octets.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(octets.size()));
  ::shutdown(peer.get(), SHUT_WR);

  Loop loop;
  {
    iwarp::Provider provider(loop);
    ReleasedSocket socket{asio::ip::tcp::socket(loop.context(), asio::ip::tcp::v4(), pair[0]),
                          {read_ahead.begin(), read_ahead.end()}};
    ConnectOptions options;
    for (uint64_t i = 0; i < kReceives; ++i) options.receives.push_back({i, 256});
    std::optional<ConnectResult> result;
    Spawn([](Task<ConnectResult> stepping, std::optional<ConnectResult>& out) -> Task<> {
      ConnectResult value = co_await std::move(stepping);
      out.emplace(std::move(value));
    }(provider.StepUp(std::move(socket), role, std::vector<std::byte>(20), std::move(options)), result));
    TurnUntil(loop, [&] { return result.has_value(); });
    if (*result) {
      // Each receive completes once, before the end is reported.
      Endpoint& endpoint = ***result;
      endpoint.Start([] {});
      size_t completions = 0;
      bool ended = false;
      TurnUntil(loop, [&] {
        std::array<rdma::Completion, 8> some;
        const size_t count = endpoint.Poll(some);
        for (size_t i = 0; i < count; ++i) {
          Check(!ended);
          ended = some[i].operation == Operation::kDisconnected;
        }
        completions += count;
        return ended;
      });
      Check(completions == kReceives + 1);
    }
    result.reset();
  }
  loop.context().restart();
  loop.context().poll();
  Check(loop.buffers().outstanding() == 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, std::min(size, kMostOctets));
  const StepUpRole role = input.Octet() & 1 ? StepUpRole::kInitiator : StepUpRole::kResponder;
  const ConstBytes read_ahead = input.Take(input.Octet());
  StepUp(role, read_ahead, input.Take(kMostOctets));
  return 0;
}
