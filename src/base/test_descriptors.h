// For tests of a process that has used up its file descriptors.
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/log.h"

namespace penstock {

// UBSan opens a pipe to check a type that it sees for the first time. This shows it the types that reports of a
// shortage use, while descriptors are free.
inline void LetSanitizersMeetShortage() {
  const std::error_code error(EMFILE, std::system_category());
  log::warn("descriptors are short from here on{}", error == std::errc::too_many_files_open ? "" : ", as if");
}

// During its lifetime this process can open `left` more descriptors; further ones fail with EMFILE, even if others are
// closed. Open descriptors stay usable.
class NoFreeDescriptors {
 public:
  explicit NoFreeDescriptors(unsigned left = 0) {
    LetSanitizersMeetShortage();
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few{.rlim_cur = 0, .rlim_max = before_.rlim_max};
    for (; left > 0; ++few.rlim_cur) {
      if (::fcntl(static_cast<int>(few.rlim_cur), F_GETFD) < 0) --left;
    }
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoFreeDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  NoFreeDescriptors(const NoFreeDescriptors&) = delete;
  NoFreeDescriptors& operator=(const NoFreeDescriptors&) = delete;

 private:
  rlimit before_{};
};

// During its lifetime every descriptor of this process is in use: one can be opened only after another is closed.
class AllDescriptorsTaken {
 public:
  AllDescriptorsTaken() {
    LetSanitizersMeetShortage();
    int highest = 0;
    DIR* const open = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(open)) highest = std::max(highest, std::atoi(entry->d_name));
    ::closedir(open);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) {
      fillers_.push_back(fd);
      if (fd >= highest) break;
    }
    highest = std::max(highest, fillers_.back());
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit taken{.rlim_cur = static_cast<rlim_t>(highest) + 1, .rlim_max = before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &taken);
  }
  ~AllDescriptorsTaken() {
    ::setrlimit(RLIMIT_NOFILE, &before_);
    for (const int fd : fillers_) ::close(fd);
  }
  AllDescriptorsTaken(const AllDescriptorsTaken&) = delete;
  AllDescriptorsTaken& operator=(const AllDescriptorsTaken&) = delete;

 private:
  rlimit before_{};
  std::vector<int> fillers_;
};

}  // namespace penstock
