// One client in two dialects, RFC 8881 and the sessions of 2004: the same calls with the same meaning. The fixture is a
// server that can restart, and that both clients use over connections that tests can lose.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/engine/bound_client_test.h"
#include "nfs/v4/engine/compound_head.h"
#include "nfs/v4/operations/lease.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {

// The server, its files and its stable storage.
class RestartableServer {
 public:
  RestartableServer();
  ~RestartableServer();

  Nfs4Server& get() { return *server_; }
  // Makes the server forget what it stores from now on, as if it stopped between an execution and its kept reply.
  void LoseReplies();
  // Stops the server as kill -9 does, and starts it again with an empty file system, so that a second execution shows.
  // `reclaimers` are the owner keys of the clients that may reclaim.
  void Restart(std::vector<std::string> reclaimers = {});

  nfs_fh4 MakeFile(std::string_view name);
  bool Has(std::string_view name);
  void Remove(std::string_view name);
  // Advances the clock, and lets the server look at its leases.
  void Pass(Duration time);

 private:
  class Replies;
  class Streams;
  void Start();
  static fs::RequestContext AsRoot() { return {.credentials = {.uid = 0, .gid = 0, .groups = {}}}; }

  std::shared_ptr<Replies> replies_;
  std::shared_ptr<Streams> streams_;
  std::optional<Nfs4Server> server_;
  fs::memory::FileSystem* tree_ = nullptr;
  uint32_t instance_ = Nfs4Server::kInstance;
};

// The properties that a scenario chooses when it makes a client.
struct ClientChoices {
  std::string owner = "owner";
  bool persist = true;        // the server is to keep replies over a restart
  bool calls_back = false;    // with a back channel
  bool has_reclaimed = true;  // RFC 8881: RECLAIM_COMPLETE was sent
};

// A client of RFC 8881 with a session.
class Rfc8881Client {
 public:
  using Name = Sent<SEQUENCE4args>;  // names a request, so that it can be sent again

  Rfc8881Client(RestartableServer& server, TestConnection& connection, const ClientChoices& choices = {});

  static std::string OwnerKeyOf(std::string_view owner) { return OwnerKey(DialectOf(1), owner); }
  ClientId id() const { return client_; }
  // Adds a connection to the session.
  nfsstat4 Join(TestConnection& connection);
  Name NextName(TestConnection& connection, uint32_t slot = 0);
  // A later name, as if the requests between had been lost.
  static Name Skipping(Name name);
  template <class... Arguments>
  CompoundReply Send(TestConnection& connection, const Name& name, const Sent<Arguments>&... operations) {
    Over(connection);
    return server_.get().Run(1, name, operations...);
  }
  template <class... Arguments>
  const bool& Begin(TestConnection& connection, const Name& name, const Sent<Arguments>&... operations) {
    Over(connection);
    return server_.get().Begin(server_.get().Encode(1, name, operations...));
  }
  // Skips the result of the opener.
  static void SkipOpener(CompoundReply& reply) { reply.Next<SEQUENCE4res>(); }
  nfsstat4 Destroy(TestConnection& connection);

 private:
  void Over(TestConnection& connection);

  RestartableServer& server_;
  ClientId client_;
  SessionId session_{};
  std::map<uint32_t, uint32_t> sequences_;  // by slot
};

// A client of the sessions of 2004.
class Sess01Client {
 public:
  struct Name {
    Sent<OPERATIONCONTROL4args> control;
    uint32_t xid;
  };

  Sess01Client(RestartableServer& server, TestConnection& connection, const ClientChoices& choices = {});

  static std::string OwnerKeyOf(std::string_view owner) { return OwnerKey(DialectOfBoundSessions(), owner); }
  static ClientId id() { return ClientId(0); }
  nfsstat4 Join(TestConnection& connection) { return Bind(connection, OPERATION); }
  Name NextName(TestConnection& connection, uint32_t stream = 0, ChainFlags flag = NOCHAIN);
  static Name Skipping(Name name) { return {name.control, name.xid + 7}; }
  template <class... Arguments>
  CompoundReply Send(TestConnection& connection, const Name& name, const Sent<Arguments>&... operations) {
    Over(connection);
    server_.get().last_xid = name.xid - 1;
    return server_.get().Run(1, name.control, operations...);
  }
  template <class... Arguments>
  const bool& Begin(TestConnection& connection, const Name& name, const Sent<Arguments>&... operations) {
    Over(connection);
    server_.get().last_xid = name.xid - 1;
    return server_.get().Begin(server_.get().Encode(1, name.control, operations...));
  }
  static void SkipOpener(CompoundReply& reply) { reply.Next<OPERATIONCONTROL4res>(); }
  nfsstat4 Destroy(TestConnection& connection);

 private:
  void Over(TestConnection& connection);
  nfsstat4 Bind(TestConnection& connection, ChannelType type);

  RestartableServer& server_;
  uint64_t session_ = 0;
  std::map<uint64_t, uint32_t> channels_;  // by the number of the connection
  uint32_t xid_;
};

}  // namespace penstock::nfs::v4
