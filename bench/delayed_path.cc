#include "delayed_path.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <utility>
#include <vector>

namespace penstock::bench {
namespace {

using Clock = std::chrono::steady_clock;

// More than the product of delay and rate that any measurement here reaches.
constexpr size_t kMostOctets = 64 << 20;
constexpr size_t kPiece = 256 << 10;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

void SetUp(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

// One direction of a connection.
class Direction {
 public:
  Direction(int from, int to, DelayedPath::Delay delay) : from_(from), to_(to), delay_(delay) {}

  bool wants_input() const { return !has_ended_ && held_ < kMostOctets; }
  // Whether octets are due that the receiver has not taken yet.
  bool wants_output(Clock::time_point now) const { return !pieces_.empty() && pieces_.front().due <= now; }
  std::optional<Clock::time_point> due() const {
    return pieces_.empty() ? std::nullopt : std::optional(pieces_.front().due);
  }

  // These return false if the connection is lost.
  bool Receive(Clock::time_point now) {
    std::vector<char> octets(kPiece);
    const ssize_t count = ::recv(from_, octets.data(), octets.size(), 0);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    octets.resize(static_cast<size_t>(count));
    held_ += octets.size();
    has_ended_ = count == 0;
    pieces_.push_back({now + delay_, std::move(octets)});
    return true;
  }
  bool Send(Clock::time_point now) {
    while (wants_output(now)) {
      Piece& piece = pieces_.front();
      if (piece.octets.empty()) {
        ::shutdown(to_, SHUT_WR);
      } else {
        const ssize_t count = ::send(to_, piece.octets.data() + sent_, piece.octets.size() - sent_, MSG_NOSIGNAL);
        if (count < 0) return errno == EAGAIN || errno == EINTR;
        sent_ += static_cast<size_t>(count);
        if (sent_ < piece.octets.size()) continue;
      }
      held_ -= std::exchange(sent_, 0);
      pieces_.pop_front();
    }
    return true;
  }
  bool is_over() const { return has_ended_ && pieces_.empty(); }

 private:
  struct Piece {
    Clock::time_point due;
    std::vector<char> octets;  // none: the end of the direction
  };

  const int from_;
  const int to_;
  const DelayedPath::Delay delay_;
  std::deque<Piece> pieces_;
  size_t sent_ = 0;  // octets of the first piece
  size_t held_ = 0;
  bool has_ended_ = false;
};

struct Connection {
  Connection(Descriptor near, Descriptor far, DelayedPath::Delay delay)
      : client(std::move(near)),
        server(std::move(far)),
        up(client.get(), server.get(), delay),
        down(server.get(), client.get(), delay) {}

  const Descriptor client;
  const Descriptor server;
  Direction up;
  Direction down;
  bool is_lost = false;
};

}  // namespace

class DelayedPath::Forwarder {
 public:
  Forwarder(sockaddr_storage server, socklen_t size, Descriptor listener, Descriptor stopped, Delay delay)
      : server_(server), size_(size), listener_(std::move(listener)), stopped_(std::move(stopped)), delay_(delay) {}

  void Run() {
    // Without this, the kernel may wake this thread 50 us late.
    ::prctl(PR_SET_TIMERSLACK, 1000UL);
    std::vector<pollfd> polled;
    for (;;) {
      const std::optional<Clock::time_point> due = Prepare(polled);
      timespec wait{};
      if (due) {
        const auto left = std::max(*due - Clock::now(), Clock::duration::zero());
        const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
        wait = {.tv_sec = seconds.count(), .tv_nsec = std::chrono::nanoseconds(left - seconds).count()};
      }
      if (::ppoll(polled.data(), polled.size(), due ? &wait : nullptr, nullptr) < 0 && errno != EINTR) return;
      if (polled[0].revents != 0) return;
      Forward(polled);
      if (polled[1].revents != 0) Accept();
    }
  }

 private:
  // Returns the time of the next octets; nothing if no octets wait.
  std::optional<Clock::time_point> Prepare(std::vector<pollfd>& polled) {
    const Clock::time_point now = Clock::now();
    std::optional<Clock::time_point> next;
    polled = {{.fd = stopped_.get(), .events = POLLIN, .revents = 0},
              {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    const auto events = [&](const Direction& in, const Direction& out) {
      if (!out.wants_output(now) && out.due() && (!next || *out.due() < *next)) next = out.due();
      return static_cast<short>((in.wants_input() ? POLLIN : 0) | (out.wants_output(now) ? POLLOUT : 0));
    };
    for (const Connection& each : connections_) {
      polled.push_back({.fd = each.client.get(), .events = events(each.up, each.down), .revents = 0});
      polled.push_back({.fd = each.server.get(), .events = events(each.down, each.up), .revents = 0});
    }
    return next;
  }

  void Forward(const std::vector<pollfd>& polled) {
    size_t next = 2;
    for (Connection& each : connections_) {
      const short client = polled[next++].revents;
      const short server = polled[next++].revents;
      const Clock::time_point now = Clock::now();
      const bool goes_on = ((client & POLLIN) == 0 || each.up.Receive(now)) &&
                           ((server & POLLIN) == 0 || each.down.Receive(now)) && each.up.Send(now) &&
                           each.down.Send(now);
      each.is_lost = !goes_on || ((client | server) & POLLERR) != 0 || (each.up.is_over() && each.down.is_over());
    }
    connections_.remove_if([](const Connection& each) { return each.is_lost; });
  }

  // Connects to the server before the client's connection is used. A connection over loopback or a LAN takes no time
  // that matters here.
  void Accept() {
    Descriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Descriptor server(::socket(server_.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!client || !server) return;
    if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&server_), size_) != 0) return;
    SetUp(client.get());
    SetUp(server.get());
    connections_.emplace_back(std::move(client), std::move(server), delay_);
  }

  const sockaddr_storage server_;
  const socklen_t size_;
  const Descriptor listener_;
  const Descriptor stopped_;
  const Delay delay_;
  std::list<Connection> connections_;
};

SetupResult<std::unique_ptr<DelayedPath>> DelayedPath::Open(const std::string& host, uint16_t port, Delay delay) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found); error != 0) {
    return std::unexpected(SetupError{fmt::format("{}: {}", host, ::gai_strerror(error))});
  }
  sockaddr_storage server{};
  const socklen_t size = found->ai_addrlen;
  std::memcpy(&server, found->ai_addr, size);
  ::freeaddrinfo(found);

  const auto fail = [](const char* what) {
    return std::unexpected(SetupError{fmt::format("the path with a delay: {}: {}", what, DescribeErrno(errno))});
  };
  sockaddr_in own{};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t own_size = sizeof own;
  Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener || ::bind(listener.get(), reinterpret_cast<sockaddr*>(&own), own_size) != 0 ||
      ::listen(listener.get(), 64) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &own_size) != 0) {
    return fail("cannot listen");
  }
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return fail("cannot make a pipe");
  auto forwarder = std::make_unique<Forwarder>(server, size, std::move(listener), Descriptor(pipe[0]), delay);
  return std::unique_ptr<DelayedPath>(new DelayedPath(std::move(forwarder), ntohs(own.sin_port), pipe[1]));
}

DelayedPath::DelayedPath(std::unique_ptr<Forwarder> forwarder, uint16_t port, int stop)
    : forwarder_(std::move(forwarder)), port_(port), stop_(stop), thread_([this] { forwarder_->Run(); }) {}

DelayedPath::~DelayedPath() {
  ::close(stop_);
  thread_.join();
}

}  // namespace penstock::bench
