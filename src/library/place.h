// A loop of a runtime, on a thread of its own or driven by the host.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "base/driven_loop.h"
#include "base/log.h"
#include "base/loop.h"
#include "library/activity.h"
#include "rdma/provider.h"

namespace penstock::library {

class Place {
 public:
  // Throws std::system_error if the system has no threads or descriptors left. `runtime` tells the places of one
  // runtime from others. `logger` gets the messages.
  Place(const void* runtime, bool is_driven, std::shared_ptr<log::Logger> logger);
  ~Place();

  // Blocks until the works of `activity` have ended, and nothing is left to do on the loop. Then only a thread that is
  // still in Post() uses the loop.
  void Finish();

  Loop& loop() { return loop_; }
  // Null if the loop has a thread of its own.
  DrivenLoop* driven() { return driven_ ? &*driven_ : nullptr; }
  const DrivenLoop* driven() const { return driven_ ? &*driven_ : nullptr; }

  const std::shared_ptr<log::Logger>& logger() const { return logger_; }

  // Whether this thread runs a loop of the same runtime, so that it must not wait for one.
  bool RunsHere() const;
  // Whether this thread may begin operations now, without Post().
  bool IsHere() const { return driven_ || loop_.IsCurrent(); }

  // Returns what connects mounts over RDMA, with or without the CRC of iWARP. `make` makes it for the first mount. It
  // ends after the loop, since connections that close use it longer than their mounts. On the loop.
  rdma::Provider& ProviderFor(bool crc, const std::function<std::unique_ptr<rdma::Provider>()>& make);

  // A function of the C API is starting an operation here, and must not call penstock_done functions.
  bool is_starting = false;
  // Operations that have ended for the host.
  uint64_t ended = 0;
  // Operations of a driven loop that have not.
  size_t under_way = 0;
  // Mounts that live here. Any thread.
  std::atomic<size_t> mounts = 0;
  // Those of them that the host has. Any thread.
  std::atomic<size_t> given_mounts = 0;
  // The opening and closing of mounts.
  Activity activity;
  AbandonedWorks abandoned_works;

 private:
  Task<void> FinishAfterWorks();

  const void* const runtime_;
  const std::shared_ptr<log::Logger> logger_;
  Loop loop_;
  std::optional<DrivenLoop> driven_;
  std::thread thread_;
  std::array<std::unique_ptr<rdma::Provider>, 2> providers_;  // without and with CRC
  bool has_finished_ = false;
};

}  // namespace penstock::library
