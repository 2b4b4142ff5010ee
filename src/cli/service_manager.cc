#include "cli/service_manager.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/thread.h"

#if PENSTOCK_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

namespace penstock::cli {
namespace {

// How often the service manager hears what the server does.
constexpr Duration kStatusInterval = std::chrono::seconds(5);
// The server tells more often than it must: the machine may be busy, and the loops have a part of the time to answer.
constexpr int kSignsPerInterval = 4;

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): no thread changes the environment
  return value && *value;
}

void Notify(const std::string& text) {
#if PENSTOCK_SYSTEMD
  const int result = ::sd_notify(0, text.c_str());
  if (result < 0) log::debug("the service manager does not hear: {}", DescribeErrno(-result));
#else
  (void)text;
#endif
}

// A status is one line.
std::string StatusLine(std::string status) {
  std::ranges::replace(status, '\n', ' ');
  return "STATUS=" + status;
}

std::optional<Duration> WatchdogInterval() {
#if PENSTOCK_SYSTEMD
  uint64_t microseconds = 0;
  if (::sd_watchdog_enabled(0, &microseconds) > 0) return std::chrono::microseconds(microseconds);
#endif
  return std::nullopt;
}

// What a name of a socket means.
struct Kind {
  std::string_view name;
  bool is_stream;
  std::vector<FileDescriptor> server::PassedSockets::* list;
};
constexpr std::array kKinds{
    Kind{"nfs-tcp", true, &server::PassedSockets::tcp}, Kind{"nfs-rdma", true, &server::PassedSockets::rdma},
    Kind{"mount", true, &server::PassedSockets::mount}, Kind{"mount-udp", false, &server::PassedSockets::mount_udp},
    Kind{"http", true, &server::PassedSockets::http}};

std::string KnownNames() {
  std::string names;
  for (const Kind& each : kKinds) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

std::optional<int> OptionOf(int socket, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(socket, SOL_SOCKET, option, &value, &size) != 0) return std::nullopt;
  return value;
}

SetupResult<void> CheckSocket(int socket, const Kind& kind) {
  const auto wrong = [&](std::string_view what) {
    return std::unexpected(SetupError{fmt::format("the socket \"{}\" of the service manager {}", kind.name, what)});
  };
  const auto type = OptionOf(socket, SO_TYPE);
  if (!type) return wrong("is not a socket");
  const auto domain = OptionOf(socket, SO_DOMAIN);
  if (domain != AF_INET && domain != AF_INET6) return wrong("is not one of IPv4 or IPv6");
  if (kind.is_stream && type != SOCK_STREAM) return wrong("has the wrong type: it must be ListenStream=");
  if (!kind.is_stream && type != SOCK_DGRAM) return wrong("has the wrong type: it must be ListenDatagram=");
  if (kind.is_stream && OptionOf(socket, SO_ACCEPTCONN) != 1) {
    return wrong("does not listen: its unit must have Accept=no");
  }
  // A socket without an address gets one with its first datagram.
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return wrong("has no address");
  const int flags = ::fcntl(socket, F_GETFL);
  if (flags < 0 || ::fcntl(socket, F_SETFL, flags | O_NONBLOCK) != 0 || ::fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) {
    return wrong(DescribeErrno(errno));
  }
  return {};
}

}  // namespace

bool HasServiceManagerSupport() { return PENSTOCK_SYSTEMD; }

void WarnOfMissingSupport() {
  if (HasServiceManagerSupport() || !IsSet("NOTIFY_SOCKET")) return;
  log::warn("the service manager waits for messages, but this program was built without libsystemd (PENSTOCK_SYSTEMD)");
}

void NotifyReady(const std::string& status) { Notify("READY=1\n" + StatusLine(status)); }

void NotifyReloading() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  // systemd orders the messages of several reloads by this time.
  const auto microseconds = static_cast<uint64_t>(now.tv_sec) * 1'000'000 + static_cast<uint64_t>(now.tv_nsec) / 1000;
  Notify(fmt::format("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=Reads the configuration again", microseconds));
}

void NotifyStatus(const std::string& status) { Notify(StatusLine(status)); }

void NotifyStopping() { Notify("STOPPING=1\nSTATUS=Finishes the calls under way"); }

SetupResult<server::PassedSockets> TakePassedSockets() {
#if PENSTOCK_SYSTEMD
  char** names = nullptr;
  const int count = ::sd_listen_fds_with_names(1, &names);
  if (count < 0) {
    return std::unexpected(
        SetupError{fmt::format("the service manager passes no good sockets: {}", DescribeErrno(-count))});
  }
  std::vector<NamedSocket> sockets;
  for (int i = 0; i < count; ++i) {
    sockets.push_back({.socket = FileDescriptor(SD_LISTEN_FDS_START + i), .name = names[i]});
    std::free(names[i]);
  }
  std::free(static_cast<void*>(names));
  return SortSockets(std::move(sockets));
#else
  if (IsSet("LISTEN_FDS") && IsSet("LISTEN_PID") &&
      std::getenv("LISTEN_PID") == std::to_string(::getpid())) {  // NOLINT(concurrency-mt-unsafe)
    return std::unexpected(SetupError{
        "the service manager passes sockets, but this program was built without libsystemd (PENSTOCK_SYSTEMD)"});
  }
  return server::PassedSockets();
#endif
}

SetupResult<server::PassedSockets> SortSockets(std::vector<NamedSocket> sockets) {
  server::PassedSockets sorted;
  for (NamedSocket& each : sockets) {
    const auto kind = std::ranges::find(kKinds, std::string_view(each.name), &Kind::name);
    if (kind == kKinds.end()) {
      return std::unexpected(SetupError{
          fmt::format("the service manager passes a socket named \"{}\": the names (FileDescriptorName=) are {}",
                      each.name, KnownNames())});
    }
    PENSTOCK_CHECK(CheckSocket(each.socket.get(), *kind));
    (sorted.*kind->list).push_back(std::move(each.socket));
  }
  if (sorted.http.size() > 1) {
    return std::unexpected(SetupError{"the service manager passes several sockets named \"http\": there may be one"});
  }
  return sorted;
}

LifeSigns::LifeSigns(Sources sources) : sources_(std::move(sources)), watchdog_(WatchdogInterval()) {
  if (HasServiceManagerSupport() && IsSet("NOTIFY_SOCKET")) thread_ = StartThread("penstock-notify", [this] { Run(); });
}

LifeSigns::~LifeSigns() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LifeSigns::Run() {
  const Duration pause = watchdog_ ? std::min(*watchdog_ / kSignsPerInterval, kStatusInterval) : kStatusInterval;
  std::string told;
  for (;;) {
    if (watchdog_) {
      // The pause and the limit together are less than the interval.
      if (sources_.loops_answer(*watchdog_ / 2)) {
        Notify("WATCHDOG=1");
      } else {
        log::error("an event loop does not answer: the service manager will end the server");
      }
    }
    std::string status = sources_.status();
    if (status != told) NotifyStatus(status);
    told = std::move(status);
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, pause, [this] { return ended_; })) return;
  }
}

}  // namespace penstock::cli
