// How many files a process may have open.
#pragma once

#include <sys/resource.h>

#include <cstddef>

namespace penstock {

// What neither connections nor files served have: libraries, databases, loops, threads that are just opening something.
inline constexpr size_t kOtherDescriptors = 128;

// Raises the limit of the process as far as it may, and gives what it is then. Any thread.
inline size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace penstock
