// For tests of mounts: a whole NFS server in the test's process, at a port of the loopback interface. It serves a file
// system in memory by all versions of NFS, by MOUNT and by NLM. A test can lose its calls and replies, hold calls back
// and answer calls itself.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "base/signal.h"
#include "fs/faulty/file_system.h"
#include "idmap/mapper.h"
#include "protocol/nfs4_compound.h"
#include "rpc/header.h"
#include "rpc/security_flavor.h"
#include "rpc/transport.h"
#include "xdr/encode.h"

namespace penstock::client {

// A call that has reached the server.
struct SeenCall {
  uint32_t program = 0;
  uint32_t version = 0;
  uint32_t procedure = 0;
  // Not known under RPCSEC_GSS. The first operations of a COMPOUND: SEQUENCE if the client has a session, then PUTFH or
  // PUTROOTFH, then one more.
  std::vector<nfs4::nfs_opnum4> operations{};
  uint64_t connection = 0;  // see rpc::Peer
  rpc::TransportKind transport = rpc::TransportKind::kTcp;
};

using CallMatcher = std::function<bool(const SeenCall&)>;
template <class Procedure>
CallMatcher CallsOf() {
  return [](const SeenCall& call) {
    return call.program == Procedure::kProgram && call.version == Procedure::kVersion &&
           call.procedure == Procedure::kNumber;
  };
}
// Matches COMPOUNDs that have `operation` among SeenCall::operations.
CallMatcher CompoundsWith(nfs4::nfs_opnum4 operation);
// Matches all calls of NFS except NULL.
CallMatcher AllCalls();

class TestService {
 public:
  struct Options {
    bool nfs3 = true;
    bool nfs4 = true;
    bool mount = true;
    bool nlm = true;  // needs nfs4, whose tables have all locks
    // The server exports one file system under all of these paths.
    std::vector<std::string> exports = {"/"};
    // The flavors that the exports accept (sec=), and those of exports of their own.
    std::string sec = "sys";
    std::map<std::string, std::string> sec_of{};
    // The other places of the exports' file system, in the syntax of the export option replicas=.
    std::string replicas{};
    // Admits calls under RPCSEC_GSS, if it is not null. It outlives the service.
    rpc::SecurityFlavor* gss = nullptr;
    // The lease time and the grace period of version 4.
    Duration lease = std::chrono::seconds(90);
    // The most delegations that version 4 gives (Settings::max_delegations). Without any, it makes no callbacks.
    uint32_t delegations = 0;
    uint16_t port = 0;  // zero: any
    // Serves over software iWARP as well. No other process gets the ports while the service does not listen.
    bool rdma = false;
    uint16_t rdma_port = 0;  // zero: any
    uint32_t max_transfer = 1 << 20;
    uint32_t max_directory = 1 << 20;   // of version 3
    idmap::Mapper owners{};             // of version 4
    std::string identity = "penstock";  // the server's owner and scope in version 4.1
  };

  // `loop` outlives the service.
  TestService(Loop& loop, Options options);
  ~TestService();
  TestService(const TestService&) = delete;
  TestService& operator=(const TestService&) = delete;

  uint16_t port() const;
  uint16_t rdma_port() const;
  // Ends the connections over the transport and refuses new ones until Listen(). Only with Options::rdma.
  void Refuse(rpc::TransportKind transport);
  void Listen(rpc::TransportKind transport);
  // Makes operations of the served file system fail.
  fs::faulty::FileSystem& files();
  // Loses all state of version 4, and all locks, like a server that is killed and started again. Its clients may
  // reclaim their state.
  void Restart();
  // Exports a referral at `path`, in the syntax of the export option refer=, and then does the same as Restart().
  void AddReferral(const std::string& path, std::string_view locations);
  // Makes the export `path` a referral, as a server does when it reads its configuration again. Clients keep their
  // handles.
  void Move(const std::string& path, std::string_view locations);
  // Makes it an export of the file system again.
  void MoveBack(const std::string& path);
  // From now on, each SEQUENCE gives these sr_status_flags, besides those of the server.
  void SetStatusFlags(uint32_t flags);
  // Revokes all opens, locks and delegations.
  void RevokeState();
  // The number of delegations that clients hold.
  size_t delegations() const;
  // Counts the matching calls that have arrived.
  size_t CountCalls(const CallMatcher& matches) const;
  // The connections over which matching calls have come, except for the first `skip` of these calls.
  std::set<uint64_t> ConnectionsOf(const CallMatcher& matches, size_t skip = 0) const;

  // From now on, `handle` replaces the server for calls that match: it leaves `skip` of them to the server, then takes
  // `times` of them. An empty reply ends the connection. If two interceptions match, the older one is first.
  using CallFunction = std::function<Task<rpc::Message>(rpc::Message call, const rpc::Peer& peer)>;
  void Intercept(CallMatcher matches, CallFunction handle, size_t times = 1, size_t skip = 0);

  // LoseCall() ends the connection before the call is executed, LoseReply() after it.
  void LoseCall(CallMatcher matches, size_t times = 1, size_t skip = 0);
  void LoseReply(CallMatcher matches, size_t times = 1, size_t skip = 0);
  // Executes the call, does the same as Restart(), so that the server forgets its reply, and ends the connection.
  void LoseReplyInRestart(CallMatcher matches);
  // Executes the call, and sends the reply when the task that `until` makes has ended.
  void DelayReply(CallMatcher matches, std::function<Task<void>()> until);
  // Executes the call and removes the last word of the reply.
  void TruncateReply(CallMatcher matches, size_t times = 1);
  // Gives no reply until the service is destroyed.
  void HoldCall(CallMatcher matches, size_t times = 1);
  // Answers with these results. Views in `results` must outlive the service.
  template <class Procedure>
  void Answer(typename Procedure::Results results, size_t times = 1, size_t skip = 0) {
    Reply(
        CallsOf<Procedure>(),
        [results = std::move(results)](xdr::Encoder& encoder, rpc::Xid xid) {
          rpc::EncodeAccepted(encoder, xid, rpc::AcceptStatus::SUCCESS);
          xdr::Encode(encoder, results);
        },
        times, skip);
  }
  // Answers with a reply that has no results, for example an RPC error.
  void Reply(CallMatcher matches, std::function<void(xdr::Encoder&, rpc::Xid)> encode, size_t times = 1,
             size_t skip = 0);
  // Answers COMPOUNDs with `status` for this operation and does not execute it. Operations before it succeed. The
  // operation is SEQUENCE, the PUTFH behind it, or the operation behind that.
  void FailOperation(nfs4::nfs_opnum4 operation, nfs4::nfsstat4 status, size_t times = 1, size_t skip = 0);

 private:
  class Server;
  const std::unique_ptr<Server> server_;
};

// The text of an option refer= that names `path` at a port of this host.
std::string At(uint16_t port, std::string_view path);
inline std::string At(const TestService& service, std::string_view path) { return At(service.port(), path); }

}  // namespace penstock::client
