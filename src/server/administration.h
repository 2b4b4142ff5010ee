// What an operator asks of a server while it runs, and does to it, beside the configuration (Server::Reload).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/timer.h"
#include "nfs/file_handle.h"
#include "nfs/v4/state/inspection.h"
#include "rpc/connection_table.h"
#include "server/server.h"

namespace penstock::server {

// From Server::Start() until before Server::Stop(). Any thread but those of the loops, several at a time. The functions
// that are said to wait do so for the loops or for a disk; all others return at once.
class Administration {
 public:
  // The server outlives this.
  explicit Administration(Server& server) : server_(server) {}

  struct Status {
    std::string not_ready{};  // why the server takes no new clients; empty if it does
    bool draining = false;
    bool in_grace = false;
    std::vector<std::optional<Duration>> loop_delays{};  // nothing: the loop has not answered in time
    size_t connections = 0, most_connections = 0;
    size_t call_octets = 0, most_call_octets = 0;  // memory of calls and replies
    Nfs4::Statistics nfs4{};
    bool recording = false;  // a trace is being written
  };
  // Waits for the loops, a second at most.
  Status GetStatus();

  // A client of any version. Clients of versions 2 and 3 have no identity but their address.
  std::vector<rpc::ConnectionTable::Shown> Connections() const;
  // Without the counts of their states.
  std::vector<nfs::v4::ShownClient> Clients();
  // Sleeps between its steps: see nfs::v4::CountStates().
  std::vector<nfs::v4::ShownClient> ClientsWithCounts();
  std::vector<nfs::v4::ShownSession> Sessions();
  // Calls look(state) for each state that passes the filter, until `look` returns false. Sleeps between its steps: see
  // nfs::v4::VisitStates().
  void VisitStates(const nfs::v4::StateFilter& filter, const std::function<bool(nfs::v4::ShownState)>& look);

  struct FilePath {
    std::string text{};    // for people
    bool is_known = true;  // `text` is the path. Otherwise it tells the export, and that the path is not known
    std::string within{};  // if the path is not known: the path of the export; empty if the export has ended

    // Whether the file may have this path.
    bool MayBe(std::string_view path) const;
  };
  // The path of a file as clients see it. It is not known if the file has no name any more, or none that the server has
  // seen. Waits for a disk.
  FilePath PathOf(const nfs::FileHandle& file) const;

  // Ends a client and all its state. Clients of version 4 may come back, but reclaim nothing. Returns false if there is
  // no such client, or if it is not confirmed and has no state. Waits for the disk. The error says why the client is
  // still there.
  SetupResult<bool> Evict(nfs::v4::ClientId client);
  // Revokes an open, locks or a delegation; its seqid does not matter. Returns false if there is none of this stateid.
  bool Revoke(const nfs4::stateid4& id);

  // From now on, the server takes no connections of addresses that have none, and is not ready; or it takes them again.
  void SetDraining(bool draining) { server_.connections_->SetDraining(draining); }
  // No client gets new opens, locks or delegations for this time. A grace period that is on becomes no shorter.
  void BeginGrace(Duration length);
  // The grace period ends within a second or two. Clients that have not reclaimed lose what they held. Returns false,
  // and changes nothing, if the server waits only for the clients of other servers of its cluster.
  bool EndGrace();

  // Records new RDMA connections in a new file, or only those of one client, until StopRecording(). Fails if a trace is
  // being written, or the file cannot be made. Waits for the disk.
  SetupResult<void> StartRecording(const std::filesystem::path& file, std::optional<IpAddress> only);
  // Ends the file. Returns the number of packets that it lacks, because the disk was too slow; nothing if no trace was
  // being written. Waits for the disk.
  std::optional<uint64_t> StopRecording();

 private:
  Loop& home() { return server_.loops_.front()->loop(); }

  Server& server_;
};

}  // namespace penstock::server
