// The parts that a host process makes for a server and hands to Server::Make().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/data.h"
#include "base/state_directory.h"
#include "base/workers.h"
#include "cluster/cluster.h"
#include "fs/audited/audit_log.h"
#include "fs/file_system.h"
#include "fs/open_files.h"
#include "nfs/export_options.h"

namespace penstock::server {

// One tree of files, and the terms on which clients may use it. The server does not know which kind of file system it
// is: fs/posix, fs/memory, or one of the host's own (docs/architecture.md, "A file system of your own").
struct Export {
  std::string path;  // as clients see it, see nfs::NormalizeExportPath()
  std::vector<nfs::Admission> admissions;
  std::shared_ptr<fs::FileSystem> file_system;  // not used, and may be null, if the options make it a referral
  bool is_root = false;                         // the root of the tree that clients of version 4 see (fsid=0)
};

// Sockets that the process has got from its service manager. They listen, or are bound, to addresses of IPv4 or IPv6.
// The sockets of a transport replace the addresses of Options::listen for that transport, those of `http` replace
// Options::metrics. The service manager keeps duplicates: clients that connect while no server runs wait for the next
// one.
struct PassedSockets {
  std::vector<FileDescriptor> tcp;        // NFS over TCP
  std::vector<FileDescriptor> rdma;       // NFS over software iWARP; RDMA adapters have no sockets
  std::vector<FileDescriptor> mount;      // MOUNT and the other small programs, over TCP
  std::vector<FileDescriptor> mount_udp;  // the same over UDP, each at the address and port of one of `mount`
  std::vector<FileDescriptor> http;       // the pages for monitors; at most one
};

// Members are destroyed from the last to the first: file systems before the pool that they use.
struct Parts {
  // Keeps the data that must survive a restart: the server's name, its clients and their replies. File systems may keep
  // files of their own in it. Only one server may use it at a time.
  StateDirectory state_directory;
  // Runs calls that block. File systems may use the same pool. Server::Stop() joins it, so a pool is for one server.
  std::shared_ptr<Workers> pool;
  // The descriptors that the file systems keep open between calls; null if they keep none.
  std::shared_ptr<fs::OpenFiles> open_files{};
  std::vector<Export> exports{};
  PassedSockets sockets{};
  // Gets a record for each MNT, and the addresses of connections, which the file systems' records name
  // (fs/audited/file_system.h). Null: there is no audit log.
  std::shared_ptr<fs::audited::AuditLog> audit{};
  // The server's part in a cluster of servers, before Begin(). It then keeps the clients of version 4, and the replies
  // of persistent sessions, instead of the state directory. Null: the server is alone.
  std::shared_ptr<cluster::Cluster> cluster{};
  // The cluster has taken this server for lost: the process must end at once, and serve nobody. On any thread.
  std::function<void(const std::string& why)> expelled{};
};

}  // namespace penstock::server
