// A payload's bytes, wherever they are: in memory, or still in a file.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <memory>
#include <system_error>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"

namespace penstock {

// An open file descriptor, closed by its last holder.
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

  // Whether a range of the file could not be read after it had been promised to somebody. Whoever promises another range
  // reads it before. Any thread.
  bool unreadable() const { return unreadable_.load(std::memory_order_relaxed); }
  void NoteUnreadable() const { unreadable_.store(true, std::memory_order_relaxed); }

 private:
  int fd_;
  mutable std::atomic<bool> unreadable_{false};
};

// Reads `to.size()` octets of an open file from `offset` on. Octets beyond the file's end are zeros; an error is an error, and
// noted in `file`. May block. Any thread.
[[nodiscard]] Result<void, std::error_code> ReadRange(const FileDescriptor& file, uint64_t offset, Bytes to);

// Either a Slice or `size` octets of an open file from `offset` on. A file range is for transports that can send it
// without a copy (sendfile). Octets beyond the end of a file that has become shorter are zeros. Octets that the file
// system fails to read are an error: whoever sends the range must end the connection rather than send anything else.
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
    return Data(memory_.Sub(offset, length));
  }

  // Copies the bytes to `to`, whose size is size(). The error is that of reading the file; `to` then holds nothing that
  // may be used. Never fails for memory. May block.
  [[nodiscard]] Result<void, std::error_code> CopyTo(Bytes to) const;

  // The same octets in memory: what is there already, or a copy in a buffer of `pool`. Fails and blocks as CopyTo() does.
  [[nodiscard]] Result<Slice, std::error_code> Load(BufferPool& pool) const;

 private:
  Slice memory_;
  std::shared_ptr<const FileDescriptor> file_;
  uint64_t file_offset_ = 0;
  size_t size_ = 0;
};

}  // namespace penstock
