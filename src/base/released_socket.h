// A connected TCP socket that one protocol hands over to another in the middle of the stream.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <memory>
#include <vector>

namespace penstock {

// One end of a connection that is no socket of the system, because a simulation has made it.
class SimulatedSocket {
 public:
  virtual ~SimulatedSocket() = default;
};

struct ReleasedSocket {
  // Connected, not blocking, and of the loop on which it was used so far. Nobody waits on it.
  asio::ip::tcp::socket socket;
  // Octets that were received and not used. They come before those that are still in the socket.
  std::vector<std::byte> read_ahead;
  // In a simulation, the connection itself; then `socket` is not open. Null otherwise.
  std::unique_ptr<SimulatedSocket> simulated{};
};

}  // namespace penstock
