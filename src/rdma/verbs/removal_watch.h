// Reports the removal of RDMA devices. librdmacm reports it only through its identifiers, so a process without
// connections would not notice. It also does not report a removal that waits until this process closes the device.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/data.h"

namespace penstock::rdma::verbs {

// Parses an announcement of the kernel: "remove@/devices/virtual/infiniband_verbs/uverbs0", then a NUL and more text.
// Returns the name of the device's file in /dev/infiniband, or an empty string for any other announcement.
std::string_view RemovedDevice(std::string_view announcement);

// Waits on its own thread, so that it does not keep a loop from ending.
class RemovalWatch {
 public:
  // Calls `on_removed` on that thread with the name of a removed device's file.
  explicit RemovalWatch(std::function<void(std::string_view)> on_removed);
  ~RemovalWatch();
  RemovalWatch(const RemovalWatch&) = delete;
  RemovalWatch& operator=(const RemovalWatch&) = delete;

 private:
  void Run();

  const std::function<void(std::string_view)> on_removed_;
  const FileDescriptor announcements_;  // invalid if the kernel offers none
  const FileDescriptor ended_;          // readable when the watch is destroyed
  std::thread thread_;
};

}  // namespace penstock::rdma::verbs
