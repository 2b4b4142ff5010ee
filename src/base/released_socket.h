// A connected TCP socket that one protocol hands over to another in the middle of the stream.
#pragma once

#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <vector>

namespace penstock {

struct ReleasedSocket {
  // Connected, not blocking, and of the loop on which it was used so far. Nobody waits on it.
  asio::ip::tcp::socket socket;
  // Octets that were received and not used. They come before those that are still in the socket.
  std::vector<std::byte> read_ahead;
};

}  // namespace penstock
