#include "rdma/verbs/set_up_errors.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace penstock::rdma::verbs {

std::string DescribeErrno(int error) { return std::system_category().message(error); }

SetupError CannotOpen(std::string_view name, int error) {
  if (error == EACCES || error == EPERM) {
    return {fmt::format(
        "RDMA: no permission to use {}: the files in /dev/infiniband must be readable and writable for this "
        "user (see docs/hardware.md)",
        name)};
  }
  return {fmt::format("RDMA: cannot use {}: {}", name, DescribeErrno(error))};
}

SetupError CannotRegister(std::string_view name, int error) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  if ((error == ENOMEM || error == EPERM || error == EAGAIN) && limit.rlim_cur != RLIM_INFINITY) {
    return {
        fmt::format("RDMA: {}: only {} KiB of memory may be locked: raise it with `ulimit -l unlimited`, or with "
                    "LimitMEMLOCK=infinity in the systemd unit",
                    name, limit.rlim_cur / 1024)};
  }
  return {fmt::format("RDMA: {}: cannot register memory: {}", name, DescribeErrno(error))};
}

SetupError NoDevice() {
  return {"there is no RDMA device (see `penstock devices`); use --rdma iwarp, which needs none"};
}

}  // namespace penstock::rdma::verbs
