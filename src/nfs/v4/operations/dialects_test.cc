// RFC 8881 against the sessions of 2004 (draft-talpey-nfsv4-rdma-sess-01). A client of each dialect does the same
// thing. The table at the end says what both must have in common, and where they must differ. The decisions "X" are
// those of docs/sessions-2004.md.
#include <functional>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "nfs/v4/operations/dialect_clients_test.h"

namespace penstock::nfs::v4 {
namespace {

// The result of a scenario: the status of its last request, and whether this request has had its effect.
struct Outcome {
  nfsstat4 status = NFS4_OK;
  bool effect = false;
  bool operator==(const Outcome&) const = default;
};
std::ostream& operator<<(std::ostream& to, const Outcome& outcome) {
  return to << XdrName(outcome.status) << (outcome.effect ? ", with an effect" : ", without an effect");
}

auto MakeNew(std::string_view name = "new") {
  return Op(OP_CREATE, CREATE4args{.objtype = createtype4(NF4DIR), .objname = name, .createattrs = {}});
}

// A server, connections, and a client of one dialect.
template <class OneClient>
struct Scene {
  using Client = OneClient;

  OneClient& Make(const ClientChoices& choices = {}) { return client.emplace(server, first, choices); }
  // Sends a request whose effect is a folder, and removes the folder, so that a second execution shows.
  OneClient::Name MakeOnce() {
    const auto name = client->NextName(first);
    EXPECT_EQ(client->Send(first, name, PutRoot(), MakeNew()).status, NFS4_OK);
    server.Remove("new");
    return name;
  }
  // The request again, over another connection.
  Outcome Again(TestConnection& connection, const OneClient::Name& name) {
    const nfsstat4 status = client->Send(connection, name, PutRoot(), MakeNew()).status;
    return {status, server.Has("new")};
  }
  // Opens "file" by a client.
  OPEN4res Open(OneClient& by, TestConnection& over, uint32_t access, uint32_t deny = 0,
                open_claim4 claim = Named("file")) {
    const auto open = Opening(by.id(), 0, "owner", access, deny, std::move(claim));
    auto reply = by.Send(over, by.NextName(over, 1), PutRoot(), open);
    if (reply.count < 3) return OPEN4res(reply.status);
    OneClient::SkipOpener(reply);
    return reply.Skip().template Next<OPEN4res>();
  }
  // Another client opens "file".
  nfsstat4 OpenByAnother(uint32_t access, uint32_t deny = 0) {
    if (!another) another.emplace(server, elsewhere, ClientChoices{.owner = "another"});
    return Open(*another, elsewhere, access, deny).status();
  }
  // Reads "file" with the stateid of an open.
  nfsstat4 Read(const nfs_fh4& file, const stateid4& id) {
    return client->Send(first, client->NextName(first, 2), PutFh(file), Reading(id)).status;
  }
  // After a restart: RFC 8881 makes a new session, and the session of 2004 goes on.
  void Recover() {
    if constexpr (std::is_same_v<OneClient, Rfc8881Client>) {
      client.emplace(server, first, ClientChoices{.has_reclaimed = false});
    } else {
      EXPECT_EQ(client->Join(first), NFS4_OK);
    }
  }

  BufferPool pool;
  RestartableServer server;
  TestConnection first{pool}, second{pool}, elsewhere{pool};
  std::optional<OneClient> client, another;
};

// ---- the scenarios ----

const auto UsesTwoConnections = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  scene.MakeOnce();
  return scene.Again(scene.second, client.NextName(scene.second, 1));
};

const auto RetriesOverAnotherConnection = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  return scene.Again(scene.second, scene.MakeOnce());
};

const auto RetriesOverRdma = [](auto& scene) -> Outcome {
  scene.second.transport = rpc::TransportKind::kRdma;
  return RetriesOverAnotherConnection(scene);
};

const auto RetriesAfterALoss = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  const auto name = scene.MakeOnce();
  scene.first.way->Disconnect();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  return scene.Again(scene.second, name);
};

const auto SendsAgainOverTheSameConnection = [](auto& scene) -> Outcome {
  scene.Make();
  return scene.Again(scene.first, scene.MakeOnce());
};

const auto RetriesWithoutPersist = [](auto& scene) -> Outcome {
  auto& client = scene.Make({.persist = false});
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  return scene.Again(scene.second, scene.MakeOnce());
};

const auto RetriesWithOtherOperations = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  const auto name = scene.MakeOnce();
  const nfsstat4 status = client.Send(scene.second, name, PutRoot(), MakeNew("other")).status;
  return {status, scene.server.Has("other")};
};

// The slot has had a later request since, whose retry has come over the second connection.
const auto RetriesTooLate = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  const auto early = scene.MakeOnce();
  const auto late = scene.MakeOnce();
  EXPECT_EQ(scene.Again(scene.second, late), (Outcome{NFS4_OK, false}));
  return scene.Again(scene.second, early);
};

const auto SkipsRequests = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  return scene.Again(scene.first, std::decay_t<decltype(client)>::Skipping(client.NextName(scene.first)));
};

// The connection is lost while its request is executed, and the retry comes before the end. The status is NFS4_OK if
// the retry waits for the end.
const auto RetriesDuringTheExecution = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  auto& files = *scene.server.get().faults;
  files.Add({.operation = fs::faulty::Operation::kMakeDirectory, .effect = fs::faulty::Hang()});
  const auto name = client.NextName(scene.first);
  const bool& ended = client.Begin(scene.first, name, PutRoot(), MakeNew());
  EXPECT_FALSE(ended);
  scene.first.way->Disconnect();
  EXPECT_EQ(client.Join(scene.second), NFS4_OK);
  const bool& retry_ended = client.Begin(scene.second, name, PutRoot(), MakeNew());
  const nfsstat4 status = retry_ended ? client.Send(scene.second, name, PutRoot(), MakeNew()).status : NFS4_OK;
  files.Clear();
  files.Release();
  EXPECT_TRUE(ended && retry_ended);
  // The reply of the only execution.
  EXPECT_EQ(scene.Again(scene.second, name), (Outcome{NFS4_OK, true}));
  return {status, true};
};

// A later request works on the filehandle that an earlier one has left.
const auto UsesTheFilehandleOfAnotherRequest = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  if constexpr (std::is_same_v<std::decay_t<decltype(client)>, Sess01Client>) {
    EXPECT_EQ(client.Send(scene.first, client.NextName(scene.first, 0, CHAINBEGIN), PutRoot()).status, NFS4_OK);
    const nfsstat4 status = client.Send(scene.first, client.NextName(scene.first, 1, CHAINEND), MakeNew()).status;
    return {status, scene.server.Has("new")};
  } else {
    EXPECT_EQ(client.Send(scene.first, client.NextName(scene.first, 0), PutRoot()).status, NFS4_OK);
    const nfsstat4 status = client.Send(scene.first, client.NextName(scene.first, 1), MakeNew()).status;
    return {status, scene.server.Has("new")};
  }
};

// The seqids of open-owners have no meaning, and no open is confirmed. The effect: the server asks for no confirmation.
const auto GivesAnySeqid = [](auto& scene) -> Outcome {
  scene.server.MakeFile("file");
  auto& client = scene.Make();
  Outcome outcome;
  for (const uint32_t seqid : {9u, 2u}) {
    const auto open = Opening(client.id(), seqid, "owner", kRead, 0, Named("file"));
    auto reply = client.Send(scene.first, client.NextName(scene.first), PutRoot(), open);
    std::decay_t<decltype(client)>::SkipOpener(reply);
    const auto opened = reply.Skip().template Next<OPEN4res>();
    outcome = {opened.status(), opened.is_resok4() && !(opened.resok4().rflags & OPEN4_RESULT_CONFIRM)};
  }
  return outcome;
};

// The effect: the holder is asked to return the delegation.
const auto OpensAgainstADelegation = [](auto& scene, bool calls_back) -> Outcome {
  scene.server.MakeFile("file");
  scene.Make({.calls_back = calls_back});
  EXPECT_EQ(scene.Open(*scene.client, scene.first, kRead).status(), NFS4_OK);
  const nfsstat4 status = scene.OpenByAnother(kBoth);
  return {status, scene.server.get().callbacks.recalls.size() == 1};
};
const auto RecallsADelegation = [](auto& scene) { return OpensAgainstADelegation(scene, true); };
const auto HasNoBackChannel = [](auto& scene) { return OpensAgainstADelegation(scene, false); };

// The effect: the open is still there, so that it keeps others out.
const auto RenewsItsLeaseByAnyRequest = [](auto& scene) -> Outcome {
  const nfs_fh4 file = scene.server.MakeFile("file");
  auto& client = scene.Make();
  const auto opened = scene.Open(client, scene.first, kRead, OPEN4_SHARE_DENY_WRITE);
  for (int i = 0; i < 4; ++i) {
    scene.server.Pass(std::chrono::seconds(60));
    EXPECT_EQ(client.Send(scene.first, client.NextName(scene.first), PutRoot(), GetFh()).status, NFS4_OK);
  }
  EXPECT_EQ(scene.Read(file, opened.resok4().stateid), NFS4_OK);
  const nfsstat4 status = scene.OpenByAnother(kWrite);
  return {status, status == NFS4ERR_SHARE_DENIED};
};

const auto IsSilentWithoutAConflict = [](auto& scene) -> Outcome {
  const nfs_fh4 file = scene.server.MakeFile("file");
  auto& client = scene.Make();
  const auto opened = scene.Open(client, scene.first, kRead, OPEN4_SHARE_DENY_WRITE);
  scene.server.Pass(std::chrono::seconds(200));
  const nfsstat4 status = scene.Read(file, opened.resok4().stateid);
  return {status, scene.OpenByAnother(kWrite) == NFS4ERR_SHARE_DENIED};
};

const auto IsSilentDuringAConflict = [](auto& scene) -> Outcome {
  const nfs_fh4 file = scene.server.MakeFile("file");
  auto& client = scene.Make();
  const auto opened = scene.Open(client, scene.first, kRead, OPEN4_SHARE_DENY_WRITE);
  scene.server.Pass(std::chrono::seconds(200));
  EXPECT_EQ(scene.OpenByAnother(kWrite), NFS4_OK) << "the lease was over";
  return {scene.Read(file, opened.resok4().stateid), false};
};

const auto ReclaimsAnOpen = [](auto& scene) -> Outcome {
  using Client = std::decay_t<decltype(scene)>::Client;
  scene.server.MakeFile("file");
  scene.Make();
  EXPECT_EQ(scene.Open(*scene.client, scene.first, kRead, OPEN4_SHARE_DENY_WRITE).status(), NFS4_OK);
  scene.server.Restart({Client::OwnerKeyOf("owner")});
  const nfs_fh4 file = scene.server.MakeFile("file");
  scene.Recover();
  auto& client = *scene.client;
  const auto reclaim =
      Opening(client.id(), 0, "owner", kRead, OPEN4_SHARE_DENY_WRITE, open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_NONE));
  const nfsstat4 status = client.Send(scene.first, client.NextName(scene.first, 1), PutFh(file), reclaim).status;
  return {status, scene.OpenByAnother(kWrite) == NFS4ERR_GRACE};
};

const auto UsesAnOldStateid = [](auto& scene) -> Outcome {
  using Client = std::decay_t<decltype(scene)>::Client;
  scene.server.MakeFile("file");
  scene.Make();
  const stateid4 old = scene.Open(*scene.client, scene.first, kRead).resok4().stateid;
  scene.server.Restart({Client::OwnerKeyOf("owner")});
  const nfs_fh4 file = scene.server.MakeFile("file");
  scene.Recover();
  return {scene.Read(file, old), false};
};

const auto BindsAfterARestart = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  scene.MakeOnce();
  scene.server.Restart();
  return {client.Join(scene.first), false};
};

const auto BindsAfterARestartWithoutPersist = [](auto& scene) -> Outcome {
  auto& client = scene.Make({.persist = false});
  scene.MakeOnce();
  scene.server.Restart();
  return {client.Join(scene.first), false};
};

const auto RetriesAfterARestart = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  const auto name = scene.MakeOnce();
  scene.server.Restart();
  (void)client.Join(scene.first);
  return scene.Again(scene.first, name);
};

const auto RetriesAChangeWithoutAKeptReply = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  scene.MakeOnce();
  scene.server.LoseReplies();
  const auto name = scene.MakeOnce();
  scene.server.Restart();
  (void)client.Join(scene.first);
  return scene.Again(scene.first, name);
};

const auto SendsANewRequestAfterARestart = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  scene.MakeOnce();
  scene.server.Restart();
  (void)client.Join(scene.first);
  return scene.Again(scene.first, client.NextName(scene.first));
};

const auto SendsARequestAfterDestruction = [](auto& scene) -> Outcome {
  auto& client = scene.Make();
  EXPECT_EQ(client.Destroy(scene.first), NFS4_OK);
  return scene.Again(scene.first, client.NextName(scene.first));
};

// The effect: the file is free for others.
const auto DestroysASessionWithAnOpen = [](auto& scene) -> Outcome {
  scene.server.MakeFile("file");
  auto& client = scene.Make();
  EXPECT_EQ(scene.Open(client, scene.first, kRead, OPEN4_SHARE_DENY_WRITE).status(), NFS4_OK);
  const nfsstat4 status = client.Destroy(scene.first);
  return {status, scene.OpenByAnother(kWrite) == NFS4_OK};
};

// ---- the table ----

struct Row {
  std::string name;
  std::function<Outcome()> rfc8881, sess01;  // run the scenario
  Outcome of_rfc8881, of_sess01;             // the outcomes that the specifications ask for
  std::string why = {};                      // they differ
};
void PrintTo(const Row& row, std::ostream* to) { *to << row.name; }

template <class Client, class Scenario>
std::function<Outcome()> With(Scenario scenario) {
  return [scenario] {
    Scene<Client> scene;
    return scenario(scene);
  };
}
// A scenario with the same outcome in both dialects.
template <class Scenario>
Row Same(std::string name, Scenario scenario, Outcome of_both) {
  return {std::move(name), With<Rfc8881Client>(scenario), With<Sess01Client>(scenario), of_both, of_both};
}
// A scenario whose outcomes must differ.
template <class Scenario>
Row Differs(std::string name, Scenario scenario, Outcome of_rfc8881, Outcome of_sess01, std::string why) {
  return {std::move(name), With<Rfc8881Client>(scenario), With<Sess01Client>(scenario), of_rfc8881, of_sess01,
          std::move(why)};
}

constexpr bool kEffect = true, kNoEffect = false;

// clang-format off
const std::vector<Row> kTable{
    // trunking and retries
    Same("TwoConnectionsCarryRequests",           UsesTwoConnections,              {NFS4_OK, kEffect}),
    Same("AnotherConnectionRepeatsTheReply",      RetriesOverAnotherConnection,    {NFS4_OK, kNoEffect}),
    Same("AnotherTransportRepeatsTheReply",       RetriesOverRdma,                 {NFS4_OK, kNoEffect}),
    Same("ALostConnectionLosesNoReply",           RetriesAfterALoss,               {NFS4_OK, kNoEffect}),
    Same("TheSameConnectionRepeatsTheReply",      SendsAgainOverTheSameConnection, {NFS4_OK, kNoEffect}),
    Differs("WithoutPersistRepliesAreKept",       RetriesWithoutPersist,
            {NFS4_OK, kNoEffect}, {NFS4_OK, kEffect},
            "X11: persist FALSE asks the server of 2004 to keep nothing"),
    Differs("AFalseRetryIsRefused",               RetriesWithOtherOperations,
            {NFS4ERR_SEQ_FALSE_RETRY, kNoEffect}, {NFS4ERR_SESS01_STREAM_INUSE, kNoEffect},
            "X13: the error has another name"),
    Differs("ALateRetryIsRefused",                RetriesTooLate,
            {NFS4ERR_SEQ_MISORDERED, kNoEffect}, {NFS4ERR_SESS01_STREAM_INUSE, kNoEffect},
            "X13: without sequence numbers, the server recognizes a stale retry by the channels that it names"),
    Differs("ASkippedRequestShows",               SkipsRequests,
            {NFS4ERR_SEQ_MISORDERED, kNoEffect}, {NFS4_OK, kEffect}, "X13: a streamid has no sequence number"),
    Differs("ARetryDuringTheExecutionWaits",      RetriesDuringTheExecution,
            {NFS4ERR_DELAY, kEffect}, {NFS4_OK, kEffect}, "X13: the server of 2004 lets the retry wait"),
    Differs("RequestsShareAFilehandle",           UsesTheFilehandleOfAnotherRequest,
            {NFS4ERR_NOFILEHANDLE, kNoEffect}, {NFS4_OK, kEffect}, "X15: RFC 8881 has no chains"),
    // opens and delegations
    Same("OwnersHaveNoSequence",                  GivesAnySeqid,                   {NFS4_OK, kEffect}),
    Same("ADelegationIsRecalled",                 RecallsADelegation,              {NFS4ERR_DELAY, kEffect}),
    Same("NoBackChannelMeansNoDelegation",        HasNoBackChannel,                {NFS4_OK, kNoEffect}),
    // leases
    Same("AnyRequestRenewsTheLease",              RenewsItsLeaseByAnyRequest,      {NFS4ERR_SHARE_DENIED, kEffect}),
    Same("ASilentClientKeepsWhatNobodyWants",     IsSilentWithoutAConflict,        {NFS4_OK, kEffect}),
    Differs("ASilentClientLosesItsSession",       IsSilentDuringAConflict,
            {NFS4ERR_BADSESSION, kNoEffect}, {NFS4ERR_SESS01_NOT_BOUND, kNoEffect}, "the errors have other names"),
    // restarts
    Same("OpensAreReclaimed",                     ReclaimsAnOpen,                  {NFS4_OK, kEffect}),
    Differs("StateidsEndWithTheServer",           UsesAnOldStateid,
            {NFS4ERR_BAD_STATEID, kNoEffect}, {NFS4ERR_STALE_STATEID, kNoEffect}, "the error is that of version 4.0"),
    Same("KeptRepliesOutliveTheServer",           RetriesAfterARestart,            {NFS4_OK, kNoEffect}),
    Same("APersistentSessionTakesConnections",    BindsAfterARestart,              {NFS4_OK, kNoEffect}),
    Differs("APersistentSessionTakesNewRequests", SendsANewRequestAfterARestart,
            {NFS4ERR_DEADSESSION, kNoEffect}, {NFS4_OK, kEffect}, "X14: the session of 2004 goes on after a restart"),
    Differs("AnUnfinishedChangeIsNotRepeated",    RetriesAChangeWithoutAKeptReply,
            {NFS4ERR_DEADSESSION, kNoEffect}, {NFS4ERR_SESS01_UNKNOWN_FATE, kNoEffect},
            "X14: the name of the request was written, and its reply was not"),
    Differs("OtherSessionsEndWithTheServer",      BindsAfterARestartWithoutPersist,
            {NFS4ERR_BADSESSION, kNoEffect}, {NFS4ERR_SESS01_BADSESSION, kNoEffect}, "the errors have other names"),
    // destruction
    Differs("ADestroyedSessionTakesNoRequests",   SendsARequestAfterDestruction,
            {NFS4ERR_BADSESSION, kNoEffect}, {NFS4ERR_SESS01_NOT_BOUND, kNoEffect}, "the errors have other names"),
    Differs("DestructionEndsOpens",               DestroysASessionWithAnOpen,
            {NFS4ERR_CLIENTID_BUSY, kNoEffect}, {NFS4_OK, kEffect},
            "SESSION_DESTROY ends the client with its state (§6.3)"),
};
// clang-format on

class DialectsTest : public testing::TestWithParam<Row> {};

TEST_P(DialectsTest, HasTheOutcomesOfTheTable) {
  const Row& row = GetParam();
  EXPECT_EQ(row.rfc8881(), row.of_rfc8881) << "RFC 8881";
  EXPECT_EQ(row.sess01(), row.of_sess01) << "the sessions of 2004";
  EXPECT_EQ(row.of_rfc8881 == row.of_sess01, row.why.empty()) << "a reason stands where the dialects differ";
}

INSTANTIATE_TEST_SUITE_P(Table, DialectsTest, testing::ValuesIn(kTable),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace penstock::nfs::v4
