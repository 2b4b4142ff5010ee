// Sessions of 2004 that outlive the server: it restarts, and their clients send their requests again.
#include "nfs/v4/engine/bound_client_test.h"
#include "nfs/v4/operations/lease.h"

namespace penstock::nfs::v4 {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

// A store that can fail, or forget what it is told, as if the server had stopped just before.
class WatchedStreams : public MemoryStreamStore {
 public:
  bool full = false;           // there is no room for a session
  bool cannot_create = false;  // no session gets storage
  bool fails = false;          // nothing can be kept
  bool fails_to_remove = false;
  bool loses_results = false;  // the server stops before it keeps results
  std::vector<bool> begun;     // for each request: whether its name must survive a power failure
  std::vector<bool> kept;      // the same for its results

  bool HasRoomFor(const BoundSessionRecord& session) override {
    EXPECT_GT(session.streams, 0u);
    return !full;
  }
  std::shared_ptr<StreamStorage> Create(const BoundSessionRecord& session) override {
    if (cannot_create) return nullptr;
    return std::make_shared<Watched>(*this, MemoryStreamStore::Create(session));
  }
  std::vector<SavedBoundSession> Load() override {
    auto saved = MemoryStreamStore::Load();
    for (auto& each : saved) each.storage = std::make_shared<Watched>(*this, std::move(each.storage));
    return saved;
  }

 private:
  class Watched : public StreamStorage {
   public:
    Watched(WatchedStreams& store, std::shared_ptr<StreamStorage> session)
        : store_(store), session_(std::move(session)) {}
    bool Begin(sess01::StreamId stream, const StreamRecord& request, bool lasting) override {
      if (store_.fails) return false;
      store_.begun.push_back(lasting);
      return session_->Begin(stream, request, lasting);
    }
    bool Keep(sess01::StreamId stream, const StreamRecord& request, bool lasting) override {
      if (store_.fails || store_.loses_results) return false;
      store_.kept.push_back(lasting);
      return session_->Keep(stream, request, lasting);
    }
    bool Reserve(const ChannelBlock& channels) override { return !store_.fails && session_->Reserve(channels); }
    bool Remove(bool lasting) override { return !store_.fails_to_remove && session_->Remove(lasting); }

   private:
    WatchedStreams& store_;
    const std::shared_ptr<StreamStorage> session_;
  };
};

class BoundPersistenceTest : public testing::Test {
 protected:
  explicit BoundPersistenceTest(Settings settings = {.bound_sessions = true}) : settings_(std::move(settings)) {
    StartServer();
  }

  void StartServer() {
    server.emplace(settings_, std::make_shared<MemoryReplyStore>(), ++instance_, Files::Limits{}, streams);
    tree = &server->Export("/");
    first.emplace(server->buffers);
    second.emplace(server->buffers);
  }
  // The server stops as after kill -9, and starts again with an empty file system.
  void Restart() {
    first.reset();
    second.reset();
    const uint32_t xid = server->last_xid;
    server.reset();
    StartServer();
    server->last_xid = xid;
  }

  template <class... Arguments>
  CompoundReply RunOver(TestConnection& connection, const Sent<Arguments>&... operations) {
    server->peer.connection = connection.number;
    server->peer.back_channel = connection.way;
    server->peer.control = &connection;
    server->peer.transport = connection.transport;
    return server->Run(1, operations...);
  }
  // The same request again: with the XID of the last call.
  template <class... Arguments>
  CompoundReply Again(TestConnection& connection, const Sent<Arguments>&... operations) {
    --server->last_xid;
    return RunOver(connection, operations...);
  }
  SESSIONCREATE4resok Create(std::string_view owner = "owner", uint64_t verifier = 1) {
    const auto created = RunOver(*first, SessionCreate(owner, 4, true, verifier)).Next<SESSIONCREATE4res>();
    EXPECT_EQ(created.status(), NFS4_OK);
    return created.is_resok4() ? created.resok4() : SESSIONCREATE4resok{};
  }
  SESSIONBIND4res Bind(TestConnection& connection, uint64_t session, ChannelType type = OPERATION) {
    return RunOver(connection, Op(OP_SESSION_BIND, BindArguments(session, type))).Next<SESSIONBIND4res>();
  }
  uint32_t BindOperations(TestConnection& connection, uint64_t session) {
    const auto bound = Bind(connection, session);
    EXPECT_EQ(bound.status(), NFS4_OK);
    return bound.is_resok4() ? bound.resok4().channelid : 0;
  }
  static auto MakeDirectory(std::string_view name) {
    CREATE4args arguments{.objtype = createtype4(NF4DIR), .objname = name, .createattrs = {}};
    return Op(OP_CREATE, arguments);
  }
  bool Has(const char* name) {
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    return Now(tree->Lookup(root, tree->Root(), name)).result.has_value();
  }

  std::shared_ptr<WatchedStreams> streams = std::make_shared<WatchedStreams>();
  std::optional<Nfs4Server> server;
  fs::memory::FileSystem* tree = nullptr;
  std::optional<TestConnection> first, second;

 private:
  const Settings settings_;
  uint32_t instance_ = Nfs4Server::kInstance;
};

TEST_F(BoundPersistenceTest, TheSessionGoesOnAfterARestart) {
  const auto created = Create();
  EXPECT_TRUE(created.persist);
  const uint32_t before = BindOperations(*first, created.sessionid);
  Restart();
  const uint32_t after = BindOperations(*first, created.sessionid);
  EXPECT_GT(after, before);
  EXPECT_EQ(RunOver(*first, Control(after, 0), PutRoot(), MakeDirectory("new")).status, NFS4_OK);
  EXPECT_TRUE(Has("new"));
}

TEST_F(BoundPersistenceTest, ARepeatedCreationGivesTheSameSessionAfterARestart) {
  const auto created = Create();
  BindOperations(*first, created.sessionid);
  Restart();
  const auto again = Create();
  EXPECT_EQ(again.sessionid, created.sessionid);
  EXPECT_TRUE(again.persist);
}

TEST_F(BoundPersistenceTest, AReplyThatWasKeptIsRepeatedAfterARestart) {
  const auto session = Create().sessionid;
  const uint32_t channel = BindOperations(*first, session);
  const auto sent = RunOver(*first, Control(channel, 2), PutRoot(), MakeDirectory("new"));
  ASSERT_EQ(sent.status, NFS4_OK);
  Restart();
  --server->last_xid;
  const uint32_t xid = server->last_xid;
  BindOperations(*first, session);
  server->last_xid = xid;
  EXPECT_EQ(RunOver(*first, Control(channel, 2), PutRoot(), MakeDirectory("new")).status, NFS4_OK);
  // The new file system has no directory, so the request was not executed again.
  EXPECT_FALSE(Has("new"));
}

TEST_F(BoundPersistenceTest, ARequestThatWasBegunAndHasNoReplyHasAnUnknownFate) {
  const auto session = Create().sessionid;
  const uint32_t channel = BindOperations(*first, session);
  streams->loses_results = true;
  RunOver(*first, Control(channel, 2), PutRoot(), MakeDirectory("new"));
  Restart();
  const uint32_t xid = server->last_xid - 1;
  const uint32_t after = BindOperations(*first, session);
  server->last_xid = xid;
  const auto again = RunOver(*first, Control(channel, 2), PutRoot(), MakeDirectory("new"));
  EXPECT_EQ(again.status, NFS4ERR_SESS01_UNKNOWN_FATE);
  EXPECT_FALSE(Has("new"));
  // New requests go on, on the same stream.
  streams->loses_results = false;
  EXPECT_EQ(RunOver(*first, Control(after, 2), PutRoot(), MakeDirectory("next")).status, NFS4_OK);
}

TEST_F(BoundPersistenceTest, ARequestThatChangedNothingIsExecutedAgainAfterARestart) {
  const auto session = Create().sessionid;
  const uint32_t channel = BindOperations(*first, session);
  ASSERT_EQ(RunOver(*first, Control(channel, 2), PutRoot(), GetFh()).status, NFS4_OK);
  EXPECT_THAT(streams->begun, IsEmpty());
  Restart();
  const uint32_t xid = server->last_xid - 1;
  BindOperations(*first, session);
  server->last_xid = xid;
  EXPECT_EQ(RunOver(*first, Control(channel, 2), PutRoot(), GetFh()).status, NFS4_OK);
}

TEST_F(BoundPersistenceTest, OnlyChangesThatLastMustSurviveAPowerFailure) {
  const uint32_t channel = BindOperations(*first, Create().sessionid);
  RunOver(*first, Control(channel, 0), PutRoot(), MakeDirectory("new"));
  EXPECT_EQ(streams->begun, std::vector{true});
  EXPECT_EQ(streams->kept, std::vector{true});
  RunOver(*first, Control(channel, 0), PutRoot(), Op(OP_CLOSE, CLOSE4args{}));
  EXPECT_EQ(streams->begun.back(), false);
  EXPECT_EQ(streams->kept.back(), false);
}

TEST_F(BoundPersistenceTest, RefusesAChangeIfItsRequestCannotBeStored) {
  const uint32_t channel = BindOperations(*first, Create().sessionid);
  streams->fails = true;
  EXPECT_EQ(RunOver(*first, Control(channel, 0), PutRoot(), MakeDirectory("new")).status, NFS4ERR_SERVERFAULT);
  EXPECT_FALSE(Has("new"));
  // Reads go on.
  EXPECT_EQ(RunOver(*first, Control(channel, 0), PutRoot(), GetFh()).status, NFS4_OK);
}

TEST_F(BoundPersistenceTest, ABindingWaitsForItsNumbersOnStableStorage) {
  const auto session = Create().sessionid;
  streams->fails = true;
  EXPECT_EQ(Bind(*first, session).status(), NFS4ERR_SERVERFAULT);
  streams->fails = false;
  EXPECT_EQ(BindOperations(*first, session), 1u);
}

// ---- the storage of sessions that are never bound

TEST_F(BoundPersistenceTest, OnlyABindingTakesRoomOnTheDisk) {
  const auto created = Create();
  EXPECT_TRUE(created.persist);
  EXPECT_THAT(streams->Load(), IsEmpty());
  BindOperations(*first, created.sessionid);
  EXPECT_THAT(streams->Load(), SizeIs(1));
  BindOperations(*second, created.sessionid);
  EXPECT_THAT(streams->Load(), SizeIs(1));
}

TEST_F(BoundPersistenceTest, NoSessionIsBoundWithoutTheStorageThatItsCreationHasPromised) {
  const auto session = Create().sessionid;
  streams->cannot_create = true;
  EXPECT_EQ(Bind(*first, session).status(), NFS4ERR_SERVERFAULT);
  streams->cannot_create = false;
  EXPECT_EQ(BindOperations(*first, session), 1u);
  Restart();
  BindOperations(*first, session);
}

class PersistentPlacesTest : public BoundPersistenceTest {
 protected:
  static constexpr uint32_t kPlaces = 8;
  PersistentPlacesTest() : BoundPersistenceTest({.max_persistent_sessions = kPlaces, .bound_sessions = true}) {}

  // Creates a session over a connection of its own, from a host.
  SESSIONCREATE4resok CreateFrom(uint8_t host, std::string_view owner) {
    first.emplace(server->buffers);
    server->peer.address = {asio::ip::address_v4({192, 0, 2, host}), 700};
    return Create(owner);
  }
};

TEST_F(PersistentPlacesTest, TheOldestSessionThatWasNeverBoundGivesItsPlaceUp) {
  std::vector<uint64_t> sessions;
  for (uint32_t i = 0; i <= kPlaces; ++i) {
    const auto created = CreateFrom(static_cast<uint8_t>(i), "owner" + std::to_string(i));
    EXPECT_TRUE(created.persist) << i;
    sessions.push_back(created.sessionid);
  }
  EXPECT_EQ(Bind(*first, sessions[0]).status(), NFS4ERR_SESS01_BADSESSION);
  EXPECT_EQ(Bind(*first, sessions[1]).status(), NFS4_OK);
  EXPECT_EQ(server->state.Run([](StateTables& state) { return state.clients.client_count(); }), kPlaces);
}

TEST_F(PersistentPlacesTest, BoundSessionsKeepTheirPlaces) {
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const auto host = static_cast<uint8_t>(i);
    BindOperations(*first, CreateFrom(host, "owner" + std::to_string(i)).sessionid);
  }
  const auto created = CreateFrom(99, "late");
  EXPECT_FALSE(created.persist);
  EXPECT_EQ(Bind(*first, created.sessionid).status(), NFS4_OK);
}

TEST_F(PersistentPlacesTest, OneHostHasAQuarterOfThePlaces) {
  std::vector<uint64_t> sessions;
  for (uint32_t i = 0; i < kPlaces; ++i) {
    const auto created = CreateFrom(1, "owner" + std::to_string(i));
    EXPECT_TRUE(created.persist) << i;
    sessions.push_back(created.sessionid);
  }
  // Its later sessions have taken the places of its earlier ones.
  EXPECT_EQ(Bind(*first, sessions[kPlaces - 3]).status(), NFS4ERR_SESS01_BADSESSION);
  EXPECT_EQ(Bind(*first, sessions[kPlaces - 1]).status(), NFS4_OK);
  second.emplace(server->buffers);
  EXPECT_EQ(Bind(*second, sessions[kPlaces - 2]).status(), NFS4_OK);
  EXPECT_FALSE(CreateFrom(1, "late").persist);
  EXPECT_TRUE(CreateFrom(2, "other").persist);
}

TEST_F(PersistentPlacesTest, ASessionThatEndsLeavesItsPlace) {
  for (uint32_t i = 0; i < 3 * kPlaces; ++i) {
    const auto created = CreateFrom(1, "owner");
    EXPECT_TRUE(created.persist) << i;
    const uint32_t channel = BindOperations(*first, created.sessionid);
    EXPECT_EQ(RunOver(*first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  }
}

TEST_F(BoundPersistenceTest, PersistIsNotGrantedWithoutRoom) {
  streams->full = true;
  const auto created = Create();
  EXPECT_FALSE(created.persist);
  // The replies are kept in memory.
  const uint32_t channel = BindOperations(*first, created.sessionid);
  EXPECT_EQ(RunOver(*first, Control(channel, 0), PutRoot(), MakeDirectory("new")).status, NFS4_OK);
  BindOperations(*second, created.sessionid);
  server->last_xid -= 2;
  EXPECT_EQ(RunOver(*second, Control(channel, 0), PutRoot(), MakeDirectory("new")).status, NFS4_OK);
  Restart();
  EXPECT_EQ(Bind(*first, created.sessionid).status(), NFS4ERR_SESS01_BADSESSION);
}

// ---- CB_CREDITRECALL: the client has returned streamids ----

class LoweredTest : public BoundPersistenceTest {
 protected:
  // Creates directories on all four streamids, and then takes two of them back.
  LoweredTest() : session_(Create().sessionid) {
    channel_ = BindOperations(*first, session_);
    for (const uint32_t stream : {0, 1, 2, 3}) {
      EXPECT_EQ(
          RunOver(*first, Control(channel_, stream), PutRoot(), MakeDirectory("new" + std::to_string(stream))).status,
          NFS4_OK);
    }
    server->state.Run([&](StateTables& state) {
      auto& sessions = state.bound_sessions;
      const size_t all = sessions.kept_octets();
      sessions.FinishRecall({sessions.Find(session_)->client, session_, 2});
      EXPECT_EQ(sessions.kept_octets(), all / 2);
    });
  }
  nfsstat4 Ask(uint32_t channel, uint32_t stream) {
    return RunOver(*first, Control(channel, stream), PutRoot()).status;
  }
  size_t KeptOctets() {
    return server->state.Run([](StateTables& state) { return state.bound_sessions.kept_octets(); });
  }

  const uint64_t session_;
  uint32_t channel_ = 0;
};

TEST_F(LoweredTest, TheNumberOfStreamIdsIsTheSameAfterARestart) {
  const size_t kept = KeptOctets();
  Spawn(KeepLeases(server->GetServices(), nullptr));
  Restart();
  EXPECT_EQ(KeptOctets(), kept);
  EXPECT_EQ(Create().totalrequests, 2u);
  const auto bound = Bind(*first, session_);
  ASSERT_EQ(bound.status(), NFS4_OK);
  EXPECT_EQ(bound.resok4().maxrequests, 2u);
  EXPECT_EQ(Ask(bound.resok4().channelid, 1), NFS4_OK);
  EXPECT_EQ(Ask(bound.resok4().channelid, 2), NFS4ERR_SESS01_BADSTREAM);
}

// The client uses none of the others.
TEST_F(LoweredTest, AllStreamIdsAreValidAfterARestartIfTheNumberIsNotStored) {
  streams->fails = true;
  Spawn(KeepLeases(server->GetServices(), nullptr));
  streams->fails = false;
  EXPECT_EQ(Ask(channel_, 2), NFS4ERR_SESS01_BADSTREAM);
  Restart();
  EXPECT_EQ(Create().totalrequests, 4u);
  EXPECT_EQ(Ask(BindOperations(*first, session_), 3), NFS4_OK);
}

TEST_F(LoweredTest, LaterBindingsKeepTheNumber) {
  server->state.Run([](StateTables& state) { state.bound_sessions.TakeLowered(); });
  Restart();
  BindOperations(*first, session_);
  server->state.Run([&](StateTables& state) {
    auto& sessions = state.bound_sessions;
    sessions.FinishRecall({sessions.Find(session_)->client, session_, 3});
  });
  Spawn(KeepLeases(server->GetServices(), nullptr));
  Restart();
  BindOperations(*first, session_);
  Restart();
  EXPECT_EQ(Create().totalrequests, 3u);
}

TEST_F(BoundPersistenceTest, OnlyTheCreatorMayBindAfterARestart) {
  const auto session = Create().sessionid;
  BindOperations(*first, session);
  Restart();
  server->SetUser(7);
  EXPECT_EQ(Bind(*first, session).status(), NFS4ERR_SESS01_BADSESSION);
}

TEST_F(BoundPersistenceTest, ASessionThatEndsIsForgottenOnStableStorage) {
  const uint32_t channel = BindOperations(*first, Create().sessionid);
  EXPECT_EQ(RunOver(*first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  Spawn(KeepLeases(server->GetServices(), nullptr));
  EXPECT_THAT(streams->Load(), IsEmpty());
}

// The server is killed just after it has answered.
TEST_F(BoundPersistenceTest, ADestroyedSessionDoesNotComeBackAfterARestart) {
  const auto session = Create().sessionid;
  const uint32_t channel = BindOperations(*first, session);
  EXPECT_EQ(RunOver(*first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4_OK);
  EXPECT_THAT(streams->Load(), IsEmpty());
  Restart();
  EXPECT_EQ(Bind(*first, session).status(), NFS4ERR_SESS01_BADSESSION);
}

TEST_F(BoundPersistenceTest, ADestructionThatTheDiskDoesNotLearnOfIsTriedAgain) {
  const uint32_t channel = BindOperations(*first, Create().sessionid);
  ASSERT_EQ(RunOver(*first, Control(channel, 0), PutRoot(), GetFh()).status, NFS4_OK);
  streams->fails_to_remove = true;
  EXPECT_EQ(RunOver(*first, Control(channel, 0), Op(OP_SESSION_DESTROY)).status, NFS4ERR_SERVERFAULT);
  EXPECT_THAT(streams->Load(), SizeIs(1));
  streams->fails_to_remove = false;
  Spawn(KeepLeases(server->GetServices(), nullptr));
  EXPECT_THAT(streams->Load(), IsEmpty());
}

TEST_F(BoundPersistenceTest, TheLaterOfTwoSessionsOfAnOwnerCountsAfterARestart) {
  BindOperations(*first, Create("owner", 1).sessionid);
  first.emplace(server->buffers);
  const auto later = Create("owner", 2).sessionid;
  BindOperations(*first, later);
  // The server stops before it has removed the first one.
  EXPECT_THAT(streams->Load(), SizeIs(2));
  Restart();
  BindOperations(*first, later);
  Spawn(KeepLeases(server->GetServices(), nullptr));
  const auto saved = streams->Load();
  ASSERT_THAT(saved, SizeIs(1));
  EXPECT_EQ(saved[0].session.id, later);
}

TEST_F(BoundPersistenceTest, ABackChannelMayReturnAfterARestart) {
  const auto session = Create().sessionid;
  ASSERT_EQ(Bind(*first, session, BACK).status(), NFS4_OK);
  BindOperations(*second, session);
  Restart();
  BindOperations(*first, session);
  EXPECT_EQ(Bind(*second, session, BACK).status(), NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
