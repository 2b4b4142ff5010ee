// For tests of what a process does that has used up its file descriptors.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>

namespace penstock {

// While it lives, this process has so many descriptors left to open, then EMFILE. What is open can be used on.
class NoFreeDescriptors {
 public:
  explicit NoFreeDescriptors(unsigned left = 0) {
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

}  // namespace penstock
