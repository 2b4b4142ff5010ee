// A connection to a cluster, through librados.
#pragma once

#include <rados/librados.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace penstock::fs::ceph {

// Ends the connection.
class Cluster {
 public:
  explicit Cluster(rados_t handle) : handle_(handle) {}
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  ~Cluster() { ::rados_shutdown(handle_); }
  rados_t get() const { return handle_; }

 private:
  const rados_t handle_;
};

using Setting = std::pair<const char*, std::string>;

// "client.ID"
std::string UserOf(const std::string& user);
// Connects as `user`, with the cluster's configuration in the file `conf`, and these settings besides. Empty texts
// stand for Ceph's defaults. The error is the end of a sentence for the operator.
SetupResult<std::unique_ptr<Cluster>> Connect(const std::string& conf, const std::string& user,
                                              std::chrono::seconds patience, std::span<const Setting> settings);

}  // namespace penstock::fs::ceph
