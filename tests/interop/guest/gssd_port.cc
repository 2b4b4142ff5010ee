// Preloaded into rpc.gssd, which always connects to port 2049. It redirects these connections to the port GSSD_PORT.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cstring>

extern "C" int connect(int fd, const sockaddr* address, socklen_t length) {
  const auto system_connect = reinterpret_cast<decltype(&connect)>(dlsym(RTLD_NEXT, "connect"));
  const char* port = getenv("GSSD_PORT");
  sockaddr_in changed;
  if (port == nullptr || address->sa_family != AF_INET || length < sizeof changed)
    return system_connect(fd, address, length);
  std::memcpy(&changed, address, sizeof changed);
  if (changed.sin_port == htons(2049)) changed.sin_port = htons(static_cast<in_port_t>(atoi(port)));
  return system_connect(fd, reinterpret_cast<const sockaddr*>(&changed), sizeof changed);
}
