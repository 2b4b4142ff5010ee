#include "control/socket.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace penstock::control {

SetupResult<sockaddr_un> AddressOf(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& text = path.native();
  if (text.empty() || text.size() >= sizeof address.sun_path) {
    return std::unexpected(
        SetupError{fmt::format("the path of the control socket has {} octets, and may have 1 to {}: {}", text.size(),
                               sizeof address.sun_path - 1, text)});
  }
  std::memcpy(address.sun_path, text.data(), text.size());
  return address;
}

FileDescriptor MakeSocket() { return FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

bool SendAll(int socket, std::string_view octets) {
  while (!octets.empty()) {
    const ssize_t sent = ::send(socket, octets.data(), octets.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    octets.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

std::optional<std::string> ReceiveLine(int socket, std::string& received, size_t longest) {
  size_t searched = 0;
  for (;;) {
    if (const size_t end = received.find('\n', searched); end != std::string::npos) {
      std::string line = received.substr(0, end);
      received.erase(0, end + 1);
      return line;
    }
    searched = received.size();
    if (searched > longest) return std::nullopt;
    std::array<char, 16 << 10> octets;
    const ssize_t count = ::recv(socket, octets.data(), octets.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return std::nullopt;
    received.append(octets.data(), static_cast<size_t>(count));
  }
}

}  // namespace penstock::control
