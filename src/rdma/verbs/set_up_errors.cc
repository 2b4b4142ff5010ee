#include "rdma/verbs/set_up_errors.h"

#include "base/result.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace penstock::rdma::verbs {

SetupError CannotOpen(std::string_view file, std::string_view device, int error) {
  const std::string path = fmt::format("/dev/infiniband/{}", file);
  // If the libraries cannot open the file, they try a link made by udev and report the error of that. So find the first
  // error again.
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK, AT_EACCESS) != 0) error = errno;
  const std::string what = device.empty() ? path : fmt::format("{} ({})", device, path);
  if (error == EACCES || error == EPERM) {
    return {fmt::format(
        "RDMA: no permission to use {}: the files in /dev/infiniband must be readable and writable for this "
        "user (see docs/hardware.md)",
        what)};
  }
  return {fmt::format("RDMA: cannot open {}: {}", what, DescribeErrno(error))};
}

SetupError NoConnectionManager(int error) { return CannotOpen("rdma_cm", {}, error); }

SetupError CannotUse(std::string_view device, int error) {
  return {fmt::format("RDMA: cannot use {}: {}", device, DescribeErrno(error))};
}

SetupError CannotRegister(std::string_view device, int error) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if ((error == ENOMEM || error == EPERM || error == EAGAIN) && limit.rlim_cur != RLIM_INFINITY) {
    return {
        fmt::format("RDMA: {}: only {} KiB of memory may be locked: raise it with `ulimit -l unlimited`, or with "
                    "LimitMEMLOCK=infinity in the systemd unit",
                    device, limit.rlim_cur / 1024)};
  }
  return {fmt::format("RDMA: {}: cannot register memory: {}", device, DescribeErrno(error))};
}

SetupError NoDevice(std::string_view name) {
  return {fmt::format("there is no RDMA device{}{} (see `penstock devices`); use --rdma iwarp, which needs none",
                      name.empty() ? "" : " ", name)};
}

}  // namespace penstock::rdma::verbs
