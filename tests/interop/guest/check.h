// Shared by the guest's programs. A failure ends the program, and prints its place and errno.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <source_location>
#include <string>
#include <string_view>

namespace guest {

[[noreturn]] inline void Fail(const std::string& what, std::source_location where = std::source_location::current()) {
  const int error = errno;
  std::string name = where.file_name();
  std::printf("FAILED %s:%u: %s (errno: %s)\n", name.substr(name.rfind('/') + 1).c_str(), unsigned(where.line()),
              what.c_str(), std::strerror(error));
  std::fflush(stdout);
  _exit(1);
}

inline void Check(bool good, const std::string& what, std::source_location where = std::source_location::current()) {
  if (!good) Fail(what, where);
}

// An open file; the destructor closes it. A failed close is a failure, because NFS reports failed writes there.
class File {
 public:
  File(const std::string& path, int flags, std::source_location where = std::source_location::current())
      : path_(path), fd_(open(path.c_str(), flags, 0644)) {
    Check(fd_ >= 0, "open " + path, where);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) Close();
  }

  int fd() const { return fd_; }

  void Close() {
    Check(close(fd_) == 0, "close " + path_);
    fd_ = -1;
  }

  void Write(std::string_view data, off_t at) const {
    Check(pwrite(fd_, data.data(), data.size(), at) == ssize_t(data.size()), "write " + path_);
  }

  void Append(std::string_view data) const {
    Check(write(fd_, data.data(), data.size()) == ssize_t(data.size()), "append to " + path_);
  }

  void Sync() const { Check(fsync(fd_) == 0, "fsync " + path_); }

  // Reads from the server: drops the cached data first.
  std::string ReadAll() const {
    Sync();
    Check(posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise " + path_);
    return ReadCached();
  }

  std::string ReadCached() const {
    struct stat status;
    Check(fstat(fd_, &status) == 0, "fstat " + path_);
    std::string data(size_t(status.st_size), '\0');
    Check(pread(fd_, data.data(), data.size(), 0) == ssize_t(data.size()), "read " + path_);
    return data;
  }

  // Calls fcntl F_SETLK, F_SETLKW or F_GETLK for a range; returns its result, with errno.
  int Lock(int command, short type, off_t start, off_t length, struct flock* found = nullptr) const {
    struct flock lock = {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = start;
    lock.l_len = length;
    const int result = fcntl(fd_, command, &lock);
    if (found) *found = lock;
    return result;
  }

 private:
  std::string path_;
  int fd_;
};

inline bool IsRefusal(int result) { return result < 0 && (errno == EAGAIN || errno == EACCES); }

// SplitMix64: reproducible from its seed.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  size_t Below(size_t limit) { return size_t(Next() % limit); }
  std::string Octets(size_t size) {
    std::string data(size, '\0');
    for (char& octet : data) octet = char(Next());
    return data;
  }

 private:
  uint64_t state_;
};

}  // namespace guest
