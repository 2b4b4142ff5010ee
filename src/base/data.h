// A payload's bytes, either in memory or still in a file.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

#include "base/arrival.h"
#include "base/buffer.h"
#include "base/result.h"

namespace penstock {

// An open file descriptor. The destructor closes it.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), unreadable_(other.unreadable_.load()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    unreadable_ = other.unreadable_.load();
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // True if a transport could not read a range of the file after the reply had promised it. After that, read a range
  // into memory before promising it. Thread-safe.
  bool unreadable() const { return unreadable_.load(std::memory_order_relaxed); }
  void NoteUnreadable() const { unreadable_.store(true, std::memory_order_relaxed); }

 private:
  int fd_;
  mutable std::atomic<bool> unreadable_{false};
};

// Reads `to.size()` octets of an open file from `offset` on. Octets beyond the file's end are zeros. A read error is
// returned, and noted in `file`. May block. Thread-safe.
[[nodiscard]] Result<void, std::error_code> ReadRange(const FileDescriptor& file, uint64_t offset, Bytes to);

// Either a Slice, or `size` octets of an open file from `offset` on. Transports can send a file range without a copy
// (sendfile). Octets beyond the end of a file that was truncated are zeros. If the file system fails to read octets,
// the sender must end the connection and must not send anything else in their place.
//
// The octets of a Slice may still be arriving. Only code that waits for them may use Data that are arriving().
class Data {
 public:
  Data() = default;
  Data(Slice memory) : memory_(std::move(memory)), size_(memory_.size()) {}  // NOLINT: a Slice is Data
  Data(Slice memory, std::shared_ptr<Arrival> arrival) : Data(std::move(memory)) { arrival_ = std::move(arrival); }
  Data(std::shared_ptr<const FileDescriptor> file, uint64_t offset, size_t size)
      : file_(std::move(file)), file_offset_(offset), size_(size) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool is_file() const { return file_ != nullptr; }

  // Requires !is_file().
  const Slice& memory() const {
    assert(!is_file());
    return memory_;
  }
  ConstBytes bytes() const { return memory().bytes(); }

  // Requires is_file().
  const std::shared_ptr<const FileDescriptor>& file() const { return file_; }
  uint64_t file_offset() const { return file_offset_; }

  Data Sub(size_t offset, size_t length) const {
    if (is_file()) return Data(file_, file_offset_ + offset, length);
    Data part(memory_.Sub(offset, length));
    part.arrival_ = arrival_;
    part.arrives_at_ = arrives_at_ + offset;
    return part;
  }

  // Whether octets have not arrived yet.
  bool arriving() const { return arrival_ && arrival_->arrived() < arrives_at_ + size_; }
  // The number of octets, from the first one on, that have arrived.
  size_t arrived() const {
    if (!arrival_) return size_;
    return std::min(size_, arrival_->arrived() - std::min(arrival_->arrived(), arrives_at_));
  }
  // co_await data.ArrivedBeyond(octets): waits until more than so many octets have arrived. Returns false if they have
  // not when their connection is lost, or at EndArrival().
  auto ArrivedBeyond(size_t octets) const { return Arrival::Beyond(arrival_.get(), arrives_at_ + octets); }
  // The same for all octets.
  auto AllArrived() const { return Arrival::Beyond(arriving() ? arrival_.get() : nullptr, arrives_at_ + size_ - 1); }
  // Ends the wait for octets that have not arrived. Requires that the data are arriving().
  void EndArrival() const { arrival_->End(); }

  // Copies the bytes to `to`, whose size is size(). Returns the error of reading the file; the contents of `to` are
  // then undefined. Never fails for data in memory. May block.
  [[nodiscard]] Result<void, std::error_code> CopyTo(Bytes to) const;

  // Returns the octets in memory: the slice itself, or a copy of the file range in a buffer of `pool`. Fails and blocks
  // like CopyTo().
  [[nodiscard]] Result<Slice, std::error_code> Load(BufferPool& pool) const;

 private:
  Slice memory_;
  std::shared_ptr<const FileDescriptor> file_;
  uint64_t file_offset_ = 0;
  size_t size_ = 0;
  std::shared_ptr<Arrival> arrival_;  // null if all octets are there
  size_t arrives_at_ = 0;             // the place of the first octet among those of `arrival_`
};

}  // namespace penstock
