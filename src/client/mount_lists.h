// What the MOUNT service of a server tells: its exports with their security flavors, and what its clients have mounted.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "base/workers.h"
#include "client/error.h"
#include "client/ports.h"
#include "client/url.h"
#include "nfs_protocol/security_flavors.h"
#include "rpc/client.h"

namespace penstock::client {

struct ExportEntry {
  std::string path;
  std::vector<std::string> clients;  // empty: everybody
};

struct MountEntry {
  std::string host;
  std::string path;
};

// Belongs to its loop. One call at a time.
class MountCalls {
 public:
  // Looks for MOUNT as a mount of version 3 does. `loop` and `workers` outlive the calls.
  static Task<Result<std::unique_ptr<MountCalls>>> Open(Loop& loop, Workers& workers, const Url& url);

  // The host and the port of MOUNT.
  const Url& url() const { return service_.url; }
  // Both are sorted by path and host.
  Task<Result<std::vector<ExportEntry>>> ListExports();
  Task<Result<std::vector<MountEntry>>> ListMounts();
  // Mounts the export and unmounts it, since only the reply of MNT has the flavors. They are in the server's order of
  // preference, without those that the client does not know.
  Task<Result<std::vector<nfs_protocol::SecurityFlavor>>> FlavorsOf(const std::string& path);
  // The connection must outlive the turn of the loop that delivered its last reply.
  Task<void> Close();

 private:
  MountCalls(Loop& loop, MountService service, const Url& url);

  Loop& loop_;
  MountService service_;
  rpc::Client client_;
};

}  // namespace penstock::client
