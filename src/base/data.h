// A payload's bytes, wherever they are: in memory, or still in a file.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "base/buffer.h"

namespace penstock {

// An open file descriptor, closed by its last holder.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

// Either a Slice or `size` octets of an open file from `offset` on. A file range is for transports that can send it
// without a copy (sendfile); where the file has become shorter meanwhile, the missing octets are sent as zeros.
class Data {
 public:
  Data() = default;
  Data(Slice memory) : memory_(std::move(memory)), size_(memory_.size()) {}  // NOLINT: a Slice is Data
  Data(std::shared_ptr<const FileDescriptor> file, uint64_t offset, size_t size)
      : file_(std::move(file)), file_offset_(offset), size_(size) {}

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool is_file() const { return file_ != nullptr; }

  // Requires !is_file().
  const Slice& memory() const { return memory_; }
  ConstBytes bytes() const { return memory_.bytes(); }

  // Requires is_file().
  const std::shared_ptr<const FileDescriptor>& file() const { return file_; }
  uint64_t file_offset() const { return file_offset_; }

  Data Sub(size_t offset, size_t length) const {
    if (is_file()) return Data(file_, file_offset_ + offset, length);
    return Data(memory_.Sub(offset, length));
  }

  // Copies the bytes to `to`, whose size is size(). Octets of a file that are no longer there are zeros. May block.
  void CopyTo(Bytes to) const;

 private:
  Slice memory_;
  std::shared_ptr<const FileDescriptor> file_;
  uint64_t file_offset_ = 0;
  size_t size_ = 0;
};

}  // namespace penstock
