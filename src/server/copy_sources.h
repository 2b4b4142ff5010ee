// Opens files of other servers over the network, for COPY (nfs/v4/operations/copy_sources.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/cancellation.h"
#include "base/host.h"
#include "base/log_limit.h"
#include "base/loop.h"
#include "base/task.h"
#include "nfs/v4/operations/copy_sources.h"

namespace penstock::client::v4 {
class ForeignFile;
}

namespace penstock::server {

// Any thread. Serving ends before Stop() is called, and Stop() before the instance is destroyed.
class NetworkCopySources final : public nfs::v4::CopySources {
 public:
  struct Settings {
    size_t most = 64;          // open files of other servers
    size_t most_of_host = 16;  // those that the clients on one host have asked for
    size_t most_servers = 4;   // of a list, in its order
    Duration connect_limit = std::chrono::seconds(3);
    Duration call_limit = std::chrono::seconds(30);
  };
  // `tcp`: where clients reach this server by NFS over TCP.
  NetworkCopySources(const Settings& settings, std::vector<SocketAddress> tcp);
  ~NetworkCopySources() override;

  // Connects over TCP, and has a session of version 4.2 with the other server until the file is closed.
  Task<std::unique_ptr<nfs::v4::CopySource>> Open(const rpc::Peer& peer, Request request) override;
  // The address of the client's connection, with the port for TCP there. It is an IPv4 address if the client uses IPv4,
  // so that a server without IPv6 can use it. If the server does not serve TCP at that address, the first one at which
  // it does.
  SocketAddress AddressFor(const rpc::Peer& peer) const override;

  // Refuses to open files from now on, and ends all connections and attempts to connect, so that copies end soon.
  void Abort();
  // Waits until every file is closed. After Abort(), when the copies have ended. The loops of the files must run.
  Task<> Stop(TimerService& timers);

 private:
  struct Work;
  struct Table;
  class OpenFile;
  class Source;

  void TellNoSource(const rpc::Peer& peer, const std::string& why);
  // Connects to the first server of the list that can be reached. Returns null if there is none.
  Task<std::unique_ptr<client::v4::ForeignFile>> Connect(const rpc::Peer& peer, const Request& request,
                                                         Cancellation& cancellation);

  const Settings settings_;
  const std::vector<SocketAddress> tcp_;
  const std::shared_ptr<Table> table_;
  LogLimit told_;  // that a copy has no source
};

}  // namespace penstock::server
