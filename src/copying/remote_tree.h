// The tree of a copy that is on a server.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "copying/tree.h"

namespace penstock::copying {

class RemoteTree final : public Tree {
 public:
  // `mount` outlives the tree, which outlives its directories. `name` is the server's name in messages, like
  // "nfs://host".
  RemoteTree(client::Mount& mount, std::string name) : mount_(mount), name_(std::move(name)) {}

  // Returns the directory `node`, whose path on the server is `path`.
  std::shared_ptr<Directory> Open(const client::Handle& directory, const std::string& path);

  client::Mount& mount() const { return mount_; }
  const std::string& name() const { return name_; }
  // RDMA places the octets into the caller's memory. Over TCP, which some connections of a mount may use, they arrive
  // in memory of the connection.
  unsigned buffers_per_read() const {
    return mount_.transport() == client::Protocol::kRdma && !mount_.url().tcp_port ? 1 : 2;
  }
  // Makes an error of a mount the reason only, with the mount's trouble, which says why there is no connection or no
  // security context. `name` is what the error may begin with.
  std::unexpected<Error> Reason(Error error, std::string_view name) const;

 private:
  client::Mount& mount_;
  const std::string name_;
};

}  // namespace penstock::copying
