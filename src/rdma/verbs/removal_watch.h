// Hears of RDMA devices that go. librdmacm tells of it through its identifiers only, and not where the removal waits for us to
// close the device; a process without connections would not notice.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/data.h"

namespace penstock::rdma::verbs {

// What the kernel announces: "remove@/devices/virtual/infiniband_verbs/uverbs0", and more behind a NUL. The name of the device's
// file in /dev/infiniband; empty where it says something else.
std::string_view RemovedDevice(std::string_view announcement);

// A thread of its own, so that no loop is kept from ending by it.
class RemovalWatch {
 public:
  // `on_removed` is called on that thread, with the name of a device's file.
  explicit RemovalWatch(std::function<void(std::string_view)> on_removed);
  ~RemovalWatch();
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;

 private:
  void Run();

  const std::function<void(std::string_view)> on_removed_;
  const FileDescriptor announcements_;  // none where the kernel does not give any
  const FileDescriptor ended_;
  std::thread thread_;
};

}  // namespace penstock::rdma::verbs
