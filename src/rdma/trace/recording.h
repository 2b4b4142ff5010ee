// The choice of the connections that are recorded, which may change while connections exist.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "base/address.h"
#include "base/host.h"
#include "rdma/trace/file.h"

namespace penstock::rdma::trace {

// Decides about each new connection. A connection that is recorded stays so until its end, or until its file is
// finished (File::Finish). Thread-safe.
class Recording {
 public:
  // Records nothing.
  Recording() = default;
  // Records all connections in `file`.
  explicit Recording(std::shared_ptr<File> file) : file_(std::move(file)) {}

  // From now on records new connections in `file`, or only those of this peer. Fails, and changes nothing, if a
  // recording is under way.
  bool Start(std::shared_ptr<File> file, std::optional<IpAddress> only) {
    const std::lock_guard lock(mutex_);
    if (file_) return false;
    file_ = std::move(file);
    only_ = std::move(only);
    return true;
  }
  // Records no more new connections. Returns the file; null if no recording was under way.
  std::shared_ptr<File> Stop() {
    const std::lock_guard lock(mutex_);
    only_.reset();
    return std::exchange(file_, nullptr);
  }

  bool is_on() const {
    const std::lock_guard lock(mutex_);
    return file_ != nullptr;
  }
  // The file for a new connection with this peer; null if it is not to be recorded.
  std::shared_ptr<File> FileFor(const IpAddress& peer) const {
    const std::lock_guard lock(mutex_);
    return only_ && Unmapped(*only_) != Unmapped(peer) ? nullptr : file_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<File> file_;
  std::optional<IpAddress> only_;
};

}  // namespace penstock::rdma::trace
