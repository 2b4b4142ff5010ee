// A capture file that the connections of all loops write to. What they add is queued in memory, up to a bound, and
// written by a thread of the file's own: the data path waits for a mutex, never for the disk. Where the disk cannot
// keep up, packets are left out, and the file says how many and where.
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

// Any thread, but for Open() and the destructor.
class File {
 public:
  struct Options {
    size_t max_queued = 32 << 20;  // octets; as many again may be on their way to the disk
  };

  // Makes the file, or empties it. `epoch`: what is added to a TimePoint to get the time since 1970.
  static SetupResult<std::unique_ptr<File>> Open(const std::filesystem::path& path, Duration epoch, Options options);
  static SetupResult<std::unique_ptr<File>> Open(const std::filesystem::path& path, Duration epoch) {
    return Open(path, epoch, Options());
  }
  // The epoch of the steady clock.
  static Duration RealEpoch();

  // Writes what is queued.
  ~File();

  // One packet, from its Ethernet header on, and what to say about it. When writing has failed, which is logged once,
  // this does nothing.
  void Add(TimePoint when, ConstBytes packet, std::string_view comment = {});

  // Names a connection: 1, 2, ...
  uint32_t NewConnection() { return ++connections_; }

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
  std::vector<std::byte> queue_;    // its memory is all there from the beginning
  std::vector<std::byte> writing_;  // of the thread
  uint64_t last_stamp_ = 0;
  uint64_t received_ = 0;
  uint64_t lost_ = 0;
  uint64_t lost_untold_ = 0;  // since the last packet that was queued
  bool closing_ = false;
  bool failed_ = false;
  std::thread thread_;  // last: it uses all the others
};

}  // namespace penstock::rdma::trace
