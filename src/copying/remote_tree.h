// The tree of a copy that is on a server.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "copying/tree.h"

namespace penstock::copying {

class RemoteTree final : public Tree {
 public:
  // `mounts` are mounts of one export with the same options, over connections of their own; at least one. They outlive
  // the tree, which outlives its directories. `name` is the server's name in messages, like "nfs://host".
  RemoteTree(std::vector<client::Mount*> mounts, std::string name)
      : mounts_(std::move(mounts)), name_(std::move(name)) {}

  // Returns the directory `node`, whose path on the server is `path`.
  std::shared_ptr<Directory> Open(const client::Handle& directory, const std::string& path);

  // The mount for a large file and its attributes.
  client::Mount& first() const { return *mounts_.front(); }
  // Takes turns among the mounts, for objects whose handle all of them know.
  client::Mount& Next(const client::Handle& handle);
  const std::vector<client::Mount*>& mounts() const { return mounts_; }
  const std::string& name() const { return name_; }
  // RDMA places the octets into the caller's memory. Over TCP they arrive in memory of the connection.
  unsigned buffers_per_read() const { return first().transport() == client::Protocol::kRdma ? 1 : 2; }
  // Makes an error of a mount the reason only, with the mount's trouble, which says why there is no connection or no
  // security context. `name` is what the error may begin with.
  std::unexpected<Error> Reason(Error error, std::string_view name) const;

 private:
  const std::vector<client::Mount*> mounts_;
  const std::string name_;
  size_t next_ = 0;
};

}  // namespace penstock::copying
