// For tests of the C++ API: an NFS server at a port of the loopback interface, on a thread of its own. This header has
// no names of the inner libraries, which has classes of the same names as the API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace penstock_test {

// The time limit of tests for expected events, in seconds. Only a failing test waits so long.
inline constexpr int kPatience = 50;

class LoopbackServer {
 public:
  LoopbackServer();
  // Also releases the calls that it holds.
  ~LoopbackServer();
  LoopbackServer(const LoopbackServer&) = delete;
  LoopbackServer& operator=(const LoopbackServer&) = delete;

  // Returns the URL of the root with `version` as the option `vers`.
  std::string Url(std::string_view version = "4.1") const;

  // Executes the next `count` READs of version 4, and sends their replies after ReleaseReads().
  void HoldReads(size_t count);
  void ReleaseReads();
  // Returns how many READs of version 4 have arrived since the start.
  size_t CountReads() const;

 private:
  class Thread;
  const std::unique_ptr<Thread> thread_;
};

}  // namespace penstock_test
