#include "fs/ceph/module/cluster.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace penstock::fs::ceph {
namespace {

std::unexpected<SetupError> Failure(std::string message) { return std::unexpected(SetupError{std::move(message)}); }

}  // namespace

std::string UserOf(const std::string& user) { return fmt::format("client.{}", user.empty() ? "admin" : user); }

SetupResult<std::unique_ptr<Cluster>> Connect(const std::string& conf, const std::string& user,
                                              std::chrono::seconds patience, std::span<const Setting> settings) {
  rados_t handle = nullptr;
  if (const int code = ::rados_create(&handle, user.empty() ? nullptr : user.c_str()); code != 0) {
    return Failure(std::strerror(-code));
  }
  // Not connected yet; the destructor needs no connection.
  auto cluster = std::make_unique<Cluster>(handle);
  if (const int code = ::rados_conf_read_file(handle, conf.empty() ? nullptr : conf.c_str()); code != 0) {
    return Failure(fmt::format("the cluster's configuration {} cannot be read: {}", conf.empty() ? "ceph.conf" : conf,
                               std::strerror(-code)));
  }
  const auto set = [&](const char* name, const std::string& value) -> SetupResult<void> {
    const int code = ::rados_conf_set(handle, name, value.c_str());
    if (code != 0) return Failure(fmt::format("the setting {}={}: {}", name, value, std::strerror(-code)));
    return {};
  };
  // Nothing but one message of ours goes to the operator.
  PENSTOCK_CHECK(set("log_to_stderr", "false"));
  PENSTOCK_CHECK(set("err_to_stderr", "false"));
  PENSTOCK_CHECK(set("client_mount_timeout", std::to_string(patience.count())));
  for (const auto& [name, value] : settings) PENSTOCK_CHECK(set(name, value));
  const int code = ::rados_connect(handle);
  if (code == 0) return cluster;
  switch (-code) {
    case ETIMEDOUT:
      return Failure(
          fmt::format("the cluster's monitors do not answer, or have no quorum (within {} s)", patience.count()));
    case ENOENT:
    case EACCES:
    case EPERM:
      return Failure(fmt::format("the cluster does not accept {}: its key is missing or wrong", UserOf(user)));
    default:
      return Failure(fmt::format("no connection to the cluster: {}", std::strerror(-code)));
  }
}

}  // namespace penstock::fs::ceph
