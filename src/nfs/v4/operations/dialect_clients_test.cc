#include "nfs/v4/operations/dialect_clients_test.h"

#include <utility>

namespace penstock::nfs::v4 {

// ---- the server ----

class RestartableServer::Replies final : public MemoryReplyStore {
 public:
  bool loses = false;

  std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) override {
    return std::make_shared<Session>(*this, MemoryReplyStore::Create(session, room));
  }

 private:
  class Session final : public SessionReplies {
   public:
    Session(Replies& store, std::shared_ptr<SessionReplies> session) : store_(store), session_(std::move(session)) {}
    bool Keep(SlotId slot, const KeptReply& reply, bool lasting) override {
      return !store_.loses && session_->Keep(slot, reply, lasting);
    }
    void Remove() override { session_->Remove(); }

   private:
    Replies& store_;
    const std::shared_ptr<SessionReplies> session_;
  };
};

class RestartableServer::Streams final : public MemoryStreamStore {
 public:
  bool loses = false;

  std::shared_ptr<StreamStorage> Create(const BoundSessionRecord& session) override {
    return std::make_shared<Session>(*this, MemoryStreamStore::Create(session));
  }

 private:
  class Session final : public StreamStorage {
   public:
    Session(Streams& store, std::shared_ptr<StreamStorage> session) : store_(store), session_(std::move(session)) {}
    bool Begin(sess01::StreamId stream, const StreamRecord& request, bool lasting) override {
      return session_->Begin(stream, request, lasting);
    }
    bool Keep(sess01::StreamId stream, const StreamRecord& request, bool lasting) override {
      return !store_.loses && session_->Keep(stream, request, lasting);
    }
    bool Reserve(const ChannelBlock& channels) override { return session_->Reserve(channels); }
    bool Remove(bool lasting) override { return session_->Remove(lasting); }

   private:
    Streams& store_;
    const std::shared_ptr<StreamStorage> session_;
  };
};

RestartableServer::RestartableServer() { Start(); }
RestartableServer::~RestartableServer() = default;

void RestartableServer::Start() {
  if (!replies_) {
    replies_ = std::make_shared<Replies>();
    streams_ = std::make_shared<Streams>();
  }
  server_.emplace(Settings{.bound_sessions = true}, replies_, instance_++, Files::Limits{}, streams_);
  tree_ = &server_->Export("/");
}

void RestartableServer::LoseReplies() { replies_->loses = streams_->loses = true; }

void RestartableServer::Restart(std::vector<std::string> reclaimers) {
  const uint32_t xid = server_->last_xid;
  server_.reset();
  replies_->loses = streams_->loses = false;
  Start();
  server_->last_xid = xid;
  if (reclaimers.empty()) return;
  std::vector<RecoveryRecord> records;
  for (std::string& owner : reclaimers) records.push_back({.owner = std::move(owner), .principal = User(0)});
  server_->state.Run([&](StateTables& state) {
    state.clients.grace() = Grace(records, server_->clock.now + server_->settings.grace);
  });
}

nfs_fh4 RestartableServer::MakeFile(std::string_view name) {
  fs::CreateHow how;
  how.mode = fs::CreateMode::kGuarded;
  const auto made = Now(tree_->Create(AsRoot(), tree_->Root(), name, how));
  EXPECT_TRUE(made.result);
  const FileHandle root = server_->exports.table().Resolve("/").found->root();
  return nfs_fh4(EncodedHandle(FileHandle{root.export_id, made.result->handle}).bytes());
}

bool RestartableServer::Has(std::string_view name) {
  return Now(tree_->Lookup(AsRoot(), tree_->Root(), name)).result.has_value();
}

void RestartableServer::Remove(std::string_view name) {
  EXPECT_TRUE(Now(tree_->RemoveDirectory(AsRoot(), tree_->Root(), name)).result);
}

void RestartableServer::Pass(Duration time) {
  server_->clock.now += time;
  const Services services = server_->GetServices();
  Spawn(KeepLeases(services, nullptr));
}

// ---- RFC 8881 ----

Rfc8881Client::Rfc8881Client(RestartableServer& server, TestConnection& connection, const ClientChoices& choices)
    : server_(server) {
  Over(connection);
  Nfs4Server& to = server_.get();
  const EXCHANGE_ID4args who{
      .eia_clientowner = {.co_verifier = {}, .co_ownerid = decltype(client_owner4::co_ownerid)(AsBytes(choices.owner))},
      .eia_flags = 0,
      .eia_state_protect = state_protect4_a(SP4_NONE),
      .eia_client_impl_id = {}};
  const auto known = to.Run(1, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
  EXPECT_EQ(known.eir_status(), NFS4_OK);
  client_ = ClientId(known.eir_resok4().eir_clientid);
  const channel_attrs4 channel{.ca_headerpadsize = 0,
                               .ca_maxrequestsize = 4096,
                               .ca_maxresponsesize = 4096,
                               .ca_maxresponsesize_cached = 2048,
                               .ca_maxoperations = 32,
                               .ca_maxrequests = 4,
                               .ca_rdma_ird = {}};
  const CREATE_SESSION4args wanted{.csa_clientid = client_.value(),
                                   .csa_sequence = known.eir_resok4().eir_sequenceid,
                                   .csa_flags = (choices.persist ? CREATE_SESSION4_FLAG_PERSIST : 0) |
                                                (choices.calls_back ? CREATE_SESSION4_FLAG_CONN_BACK_CHAN : 0),
                                   .csa_fore_chan_attrs = channel,
                                   .csa_back_chan_attrs = channel,
                                   .csa_cb_program = 0x40000000,
                                   .csa_sec_parms = {callback_sec_parms4(rpc::AuthFlavor::AUTH_NONE)}};
  const auto made = to.Run(1, Op(OP_CREATE_SESSION, wanted)).Next<CREATE_SESSION4res>();
  EXPECT_EQ(made.csr_status(), NFS4_OK);
  if (made.csr_status() != NFS4_OK) return;
  session_ = made.csr_resok4().csr_sessionid;
  if (!choices.has_reclaimed) return;
  EXPECT_EQ(Send(connection, NextName(connection, 3), Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{false})).status,
            NFS4_OK);
}

void Rfc8881Client::Over(TestConnection& connection) {
  rpc::Peer& peer = server_.get().peer;
  peer.connection = connection.number;
  peer.back_channel = connection.way;
  peer.control = &connection;
  peer.transport = connection.transport;
}

// A session with SP4_NONE takes any connection (RFC 8881 §2.10.3.1).
nfsstat4 Rfc8881Client::Join(TestConnection& connection) {
  Over(connection);
  return server_.get()
      .Run(1, Op(OP_BIND_CONN_TO_SESSION, BIND_CONN_TO_SESSION4args{session_, CDFC4_FORE, false}))
      .status;
}

Rfc8881Client::Name Rfc8881Client::NextName(TestConnection& /*connection*/, uint32_t slot) {
  return Op(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = session_,
                                       .sa_sequenceid = ++sequences_[slot],
                                       .sa_slotid = slot,
                                       .sa_highest_slotid = 3,
                                       .sa_cachethis = true});
}

Rfc8881Client::Name Rfc8881Client::Skipping(Name name) {
  name.arguments.sa_sequenceid += 7;
  return name;
}

nfsstat4 Rfc8881Client::Destroy(TestConnection& connection) {
  Over(connection);
  const auto status = server_.get().Run(1, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{session_})).status;
  if (status != NFS4_OK) return status;
  return server_.get().Run(1, Op(OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args{client_.value()})).status;
}

// ---- the sessions of 2004 ----

Sess01Client::Sess01Client(RestartableServer& server, TestConnection& connection, const ClientChoices& choices)
    : server_(server), xid_(1000 * static_cast<uint32_t>(connection.number)) {
  Over(connection);
  const auto created = server_.get().Run(1, SessionCreate(choices.owner, 4, choices.persist)).Next<SESSIONCREATE4res>();
  EXPECT_EQ(created.status(), NFS4_OK);
  if (created.status() != NFS4_OK) return;
  session_ = created.resok4().sessionid;
  if (choices.calls_back) {
    EXPECT_EQ(Bind(connection, BACK), NFS4_OK);
  }
  EXPECT_EQ(Bind(connection, OPERATION), NFS4_OK);
}

void Sess01Client::Over(TestConnection& connection) {
  rpc::Peer& peer = server_.get().peer;
  peer.connection = connection.number;
  peer.back_channel = connection.way;
  peer.control = &connection;
  peer.transport = connection.transport;
}

nfsstat4 Sess01Client::Bind(TestConnection& connection, ChannelType type) {
  Over(connection);
  const ConnectionMode mode = connection.transport == rpc::TransportKind::kRdma ? RDMA : STREAM;
  const auto bound =
      server_.get().Run(1, Op(OP_SESSION_BIND, BindArguments(session_, type, mode))).Next<SESSIONBIND4res>();
  if (bound.status() == NFS4_OK && type == OPERATION) channels_[connection.number] = bound.resok4().channelid;
  return bound.status();
}

Sess01Client::Name Sess01Client::NextName(TestConnection& connection, uint32_t stream, ChainFlags flag) {
  return {Control(channels_[connection.number], stream, flag), ++xid_};
}

nfsstat4 Sess01Client::Destroy(TestConnection& connection) {
  return Send(connection, NextName(connection), Op(OP_SESSION_DESTROY)).status;
}

}  // namespace penstock::nfs::v4
