// The limit of open files of this process.
#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <string_view>

namespace penstock {

// Descriptors for other purposes than connections, listening (server::ListeningDescriptors) and served files:
// libraries, databases, loops, files that are being opened.
inline constexpr size_t kOtherDescriptors = 128;

// The advice in each message about a lack of descriptors.
inline constexpr std::string_view kRaiseTheDescriptorLimit =
    "Raise the limit of open files (ulimit -n, or LimitNOFILE= of systemd)";

// The process's limit of open files. Thread-safe.
inline size_t DescriptorLimit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

// Raises the soft limit of the process to the hard limit, and returns it. Thread-safe. Only the host process decides
// this: a program that uses select() breaks with more than 1024 descriptors.
inline size_t RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace penstock
