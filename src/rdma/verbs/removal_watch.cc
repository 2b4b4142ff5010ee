#include "rdma/verbs/removal_watch.h"

#include <linux/netlink.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>

#include "base/thread.h"

namespace penstock::rdma::verbs {
namespace {

FileDescriptor OpenAnnouncements() {
  FileDescriptor socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = 1;  // announcements of the kernel, not of udev
  if (socket && ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return FileDescriptor(-1);
  }
  return socket;
}

}  // namespace

std::string_view RemovedDevice(std::string_view announcement) {
  constexpr std::string_view kRemove = "remove@", kClass = "/infiniband_verbs/";
  const std::string_view first = announcement.substr(0, announcement.find('\0'));
  const size_t at = first.rfind(kClass);
  if (!first.starts_with(kRemove) || at == std::string_view::npos) return {};
  return first.substr(at + kClass.size());
}

RemovalWatch::RemovalWatch(std::function<void(std::string_view)> on_removed)
    : on_removed_(std::move(on_removed)), announcements_(OpenAnnouncements()), ended_(::eventfd(0, EFD_CLOEXEC)) {
  if (!announcements_ || !ended_) return;
  thread_ = StartThread("penstock-verbs", [this] { Run(); });
}

RemovalWatch::~RemovalWatch() {
  if (!thread_.joinable()) return;
  ::eventfd_write(ended_.get(), 1);
  thread_.join();
}

void RemovalWatch::Run() {
  pollfd watched[] = {{announcements_.get(), POLLIN, 0}, {ended_.get(), POLLIN, 0}};
  char text[4096];
  while ((watched[1].revents & POLLIN) == 0) {
    if (::poll(watched, 2, -1) < 0) continue;
    for (;;) {
      const ssize_t size = ::recv(announcements_.get(), text, sizeof text, MSG_DONTWAIT);
      if (size < 0 && errno != EINTR) break;  // all announcements are read, or the kernel dropped some (ENOBUFS)
      if (size <= 0) continue;
      const std::string_view removed = RemovedDevice({text, static_cast<size_t>(size)});
      if (!removed.empty()) on_removed_(removed);
    }
  }
}

}  // namespace penstock::rdma::verbs
