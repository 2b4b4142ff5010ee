// A capture file for the connections of all loops. Packets wait in a queue in memory, up to a limit, and the file's own
// thread writes them. So the data path waits only for a mutex, never for the disk. If the disk is too slow, the file
// drops packets and records how many it dropped at each place.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "base/bytes.h"
#include "base/data.h"
#include "base/result.h"
#include "base/timer.h"

namespace penstock::rdma::trace {

// Any thread may call it, except for Open() and the destructor.
class File {
 public:
  struct Options {
    size_t max_queued = 32 << 20;  // octets in the queue; the thread may be writing as many again
    bool only_new = false;         // fail if there is a file of this name, be it a link
  };

  // Makes the file, or empties an existing one. `epoch` plus a TimePoint is the time since 1970.
  static SetupResult<std::unique_ptr<File>> Open(const std::filesystem::path& path, Duration epoch, Options options);
  static SetupResult<std::unique_ptr<File>> Open(const std::filesystem::path& path, Duration epoch) {
    return Open(path, epoch, Options());
  }
  // The epoch of the steady clock.
  static Duration RealEpoch();

  // Calls Finish().
  ~File();

  // Writes the queued packets and ends the file. Later packets are dropped. Waits for the disk. Any thread.
  void Finish();

  // Queues one packet, which begins with its Ethernet header, with a comment. After a failed write, which is logged
  // once, this does nothing.
  void Add(TimePoint when, ConstBytes packet, std::string_view comment = {});

  // Returns the number of a new connection. Numbers count up from 1.
  uint32_t NewConnection() { return ++connections_; }

  // The number of dropped packets.
  uint64_t lost() const;

 private:
  File(FileDescriptor file, std::filesystem::path path, Duration epoch, Options options);
  void Run();
  void Push(TimePoint when, ConstBytes packet, std::string_view comment);

  const FileDescriptor file_;
  const std::filesystem::path path_;
  const Duration epoch_;
  const Options options_;
  std::atomic<uint32_t> connections_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> queue_;    // its memory is allocated at the start
  std::vector<std::byte> writing_;  // the thread writes these
  uint64_t last_stamp_ = 0;
  uint64_t received_ = 0;
  uint64_t lost_ = 0;
  uint64_t lost_since_last_ = 0;  // dropped since the last queued packet
  bool closing_ = false;
  bool failed_ = false;
  std::once_flag finished_;
  std::thread thread_;  // the last member, because the thread uses all others
};

}  // namespace penstock::rdma::trace
