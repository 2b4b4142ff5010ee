// Measures the machine's TCP: a ping-pong of 128 octets over loopback, one at a time, between two processes. Prints the
// round trips per second, and the CPU time of the answering process per round trip. With a rate per second (0: as many
// as possible), it also prints the median, the 99th percentile and the maximum of the latencies in microseconds; a
// round trip that begins late counts from the time when it was due.
//
//   tcp_pingpong [SECONDS [RATE]]
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

constexpr size_t kSize = 128;

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

bool Transfer(ssize_t (*call)(int, char*, size_t), int fd, char* data) {
  for (size_t done = 0; done < kSize;) {
    const ssize_t n = call(fd, data + done, kSize - done);
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}
bool Send(int fd, char* data) {
  return Transfer([](int to, char* at, size_t size) { return ::send(to, at, size, MSG_NOSIGNAL); }, fd, data);
}
bool Receive(int fd, char* data) {
  return Transfer([](int from, char* at, size_t size) { return ::recv(from, at, size, 0); }, fd, data);
}

void WithoutDelay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
  const double rate = argc > 2 ? std::atof(argv[2]) : 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0 || ::bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener, 1) != 0 || ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    Fail("listen");
  }
  char data[kSize] = {};
  const pid_t echo = ::fork();
  if (echo < 0) Fail("fork");
  if (echo == 0) {
    const int fd = ::accept(listener, nullptr, nullptr);
    if (fd < 0) Fail("accept");
    WithoutDelay(fd);
    while (Receive(fd, data) && Send(fd, data)) {
    }
    std::_Exit(0);
  }
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || ::connect(fd, reinterpret_cast<sockaddr*>(&address), size) != 0) Fail("connect");
  WithoutDelay(fd);
  uint64_t count = 0;
  const auto began = Clock::now();
  const auto end = began + std::chrono::duration<double>(seconds);
  auto now = began;
  std::vector<double> latencies;  // microseconds
  for (; now < end; now = Clock::now(), ++count) {
    auto due = now;
    if (rate > 0) {
      due = began + std::chrono::duration_cast<Clock::duration>(
                        std::chrono::duration<double>(static_cast<double>(count) / rate));
      std::this_thread::sleep_until(due);
    }
    if (!Send(fd, data) || !Receive(fd, data)) Fail("ping");
    if (argc > 2) latencies.push_back(std::chrono::duration<double, std::micro>(Clock::now() - due).count());
  }
  ::close(fd);
  rusage usage{};
  if (::wait4(echo, nullptr, 0, &usage) != echo) Fail("wait");
  const double cpu = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
                     static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  const double took = std::chrono::duration<double>(now - began).count();
  std::printf("%.1f %.3f", static_cast<double>(count) / took, cpu / static_cast<double>(count));
  if (!latencies.empty()) {
    std::ranges::sort(latencies);
    std::printf(" %.1f %.1f %.1f", latencies[latencies.size() / 2], latencies[latencies.size() * 99 / 100],
                latencies.back());
  }
  std::printf("\n");
}
