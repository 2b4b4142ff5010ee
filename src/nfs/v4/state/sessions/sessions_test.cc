// Tests CREATE_SESSION (RFC 8881 §18.36), DESTROY_SESSION (§18.37), BIND_CONN_TO_SESSION (§18.34).
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using CreateSessionTest = ClientsTest;
using DestroySessionTest = ClientsTest;
using BindTest = ClientsTest;

nfs4::nfsstat4 StatusOf(const Sessions::CreateResult& created) { return created.reply.csr_status(); }

TEST_F(CreateSessionTest, ConfirmsTheClient) {
  const auto made = Exchange("owner");
  const auto created = Create(made->id, made->sequence.value());
  ASSERT_EQ(StatusOf(created), nfs4::NFS4_OK);
  EXPECT_EQ(created.reply.csr_resok4().csr_sequence, made->sequence.value());
  EXPECT_NE(clients_.Find(made->id), nullptr);
  EXPECT_EQ(Sequence(created.reply.csr_resok4().csr_sessionid), nfs4::NFS4_OK);
}

TEST_F(CreateSessionTest, GivesAClientSeveralSessions) {
  const Opened client = Open("owner");
  const auto second = Create(client.client, 2);
  ASSERT_EQ(StatusOf(second), nfs4::NFS4_OK);
  EXPECT_EQ(second.reply.csr_resok4().csr_sequence, 2u);
  EXPECT_NE(second.reply.csr_resok4().csr_sessionid, client.session);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4_OK);
  EXPECT_EQ(Sequence(second.reply.csr_resok4().csr_sessionid), nfs4::NFS4_OK);
}

// RFC 8881 §2.10.1
TEST_F(CreateSessionTest, SessionServesOnlyItsClient) {
  const Opened first = Open("first"), second = Open("second");
  EXPECT_EQ(Start(first.session, 0, 1)->client, first.client);
  EXPECT_EQ(Start(second.session, 0, 1)->client, second.client);
  Finish(first.session, 0, 1);
  Finish(second.session, 0, 1);
  // A new session that takes the table entry of a destroyed one also serves only its own client.
  ASSERT_EQ(sessions_.Destroy(first.session, connection_.number, {}), nfs4::NFS4_OK);
  const Opened third = Open("third");
  EXPECT_EQ(Start(first.session, 0, 1).error(), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(Start(third.session, 0, 1)->client, third.client);
}

TEST_F(CreateSessionTest, UnknownClientIsStale) {
  EXPECT_EQ(StatusOf(Create(ClientId(4711), 1)), nfs4::NFS4ERR_STALE_CLIENTID);
}

// RFC 8881 §18.36.4: the slot of CREATE_SESSION begins with an artificial reply, NFS4ERR_SEQ_MISORDERED.
TEST_F(CreateSessionTest, SequenceIdBeforeTheFirstIsMisordered) {
  const auto made = Exchange("owner");
  EXPECT_EQ(StatusOf(Create(made->id, made->sequence.value() - 1)), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(StatusOf(Create(made->id, made->sequence.value() + 1)), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(StatusOf(Create(made->id, made->sequence.value())), nfs4::NFS4_OK);
}

TEST_F(CreateSessionTest, RetryGetsTheFirstReply) {
  const auto made = Exchange("owner");
  const auto first = Create(made->id, 1);
  const auto again = Create(made->id, 1);
  EXPECT_EQ(again.reply, first.reply);
  EXPECT_EQ(sessions_.session_count(), 1u);
  EXPECT_EQ(StatusOf(Create(made->id, 3)), nfs4::NFS4ERR_SEQ_MISORDERED);
  EXPECT_EQ(StatusOf(Create(made->id, 0)), nfs4::NFS4ERR_SEQ_MISORDERED);
}

TEST_F(CreateSessionTest, RetryAddsItsConnectionToTheSession) {
  const auto made = Exchange("owner");
  const SessionId session = Create(made->id, 1).reply.csr_resok4().csr_sessionid;
  connection_.number = 2;
  Create(made->id, 1);
  EXPECT_EQ(sessions_.Destroy(session, 2, {}), nfs4::NFS4_OK);
}

TEST_F(CreateSessionTest, RequiresThePrincipalOfExchangeIdToConfirm) {
  const auto made = Exchange("owner", 1, /*uid=*/1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(StatusOf(Create(made->id, 1, 2)), nfs4::NFS4ERR_CLID_INUSE);
  EXPECT_EQ(StatusOf(Create(made->id, 1, 1)), nfs4::NFS4_OK);
}

// RFC 8881 §18.35.3: with SP4_NONE the server enforces no state protection.
TEST_F(CreateSessionTest, AnyPrincipalMayAddASessionToAConfirmedClient) {
  const Opened client = Open("owner", 1, /*uid=*/1);
  EXPECT_EQ(StatusOf(Create(client.client, 2, 2)), nfs4::NFS4_OK);
}

TEST_F(CreateSessionTest, RefusesTooManySessionsAndRepeatsTheRefusal) {
  settings_.max_sessions = 2;
  const Opened client = Open("owner");
  EXPECT_EQ(StatusOf(Create(client.client, 2)), nfs4::NFS4_OK);
  EXPECT_EQ(StatusOf(Create(client.client, 3)), nfs4::NFS4ERR_NOSPC);
  ASSERT_EQ(sessions_.Destroy(client.session, 1, {}), nfs4::NFS4_OK);
  EXPECT_EQ(StatusOf(Create(client.client, 3)), nfs4::NFS4ERR_NOSPC);
  EXPECT_EQ(StatusOf(Create(client.client, 4)), nfs4::NFS4_OK);
}

TEST_F(CreateSessionTest, AddsTheConnectionToTheBackchannelIfItCarriesCallbacks) {
  BufferPool buffers;
  const auto flags = [&](std::string_view owner) {
    return Create(Exchange(owner)->id, 1).reply.csr_resok4().csr_flags;
  };
  EXPECT_EQ(flags("without"), 0u);
  connection_.back_channel = std::make_shared<TestBackChannel>(buffers);
  EXPECT_EQ(flags("with"), nfs4::CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
}

// RFC 8881 §18.36.3, RFC 8167 §6: the server calls a client over a connection only if the client has agreed.
TEST_F(CreateSessionTest, ConnectionCarriesCallbacksOnlyAtTheClientsRequest) {
  BufferPool buffers;
  connection_.back_channel = std::make_shared<TestBackChannel>(buffers);
  const ClientId client = Exchange("owner")->id;
  const auto created = tables_.CreateSession({.client = client,
                                              .sequence = SequenceId(1),
                                              .back_channel = false,
                                              .fore = PlainChannel(),
                                              .back = PlainChannel(4),
                                              .callback_program = 0x40000000},
                                             connection_, User(0), ++random_, now_);
  EXPECT_EQ(created.reply.csr_resok4().csr_flags, 0u);
  const SessionId session = created.reply.csr_resok4().csr_sessionid;
  ASSERT_EQ(Sequence(session), nfs4::NFS4_OK);
  EXPECT_FALSE(tables_.CanCall(client));
  EXPECT_EQ(sessions_.StartCallback(client).error(), Sessions::NoCallback::kNoPath);
  ASSERT_TRUE(sessions_.Bind(session, connection_, nfs4::CDFC4_BACK_OR_BOTH, {}));
  EXPECT_TRUE(tables_.CanCall(client));
  EXPECT_TRUE(sessions_.StartCallback(client));
}

TEST_F(CreateSessionTest, SessionsShareTheTotalSlots) {
  settings_.max_total_slots = 16;
  const Opened first = Open("first", 1, 0, /*slots=*/16);
  EXPECT_EQ(Start(first.session, 0, 1)->sequence.sr_target_highest_slotid, 15u);
  Finish(first.session, 0, 1);
  const Opened second = Open("second", 1, 0, 16);
  EXPECT_EQ(Start(second.session, 0, 1)->sequence.sr_highest_slotid, 7u);
  EXPECT_EQ(Start(first.session, 0, 2)->sequence.sr_target_highest_slotid, 7u);
  Finish(first.session, 0, 2);
  ASSERT_EQ(sessions_.Destroy(second.session, 1, {}), nfs4::NFS4_OK);
  EXPECT_EQ(Start(first.session, 0, 3)->sequence.sr_target_highest_slotid, 15u);
}

TEST_F(DestroySessionTest, EndsTheSessionAndKeepsTheClient) {
  const Opened client = Open("owner");
  EXPECT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(StatusOf(Create(client.client, 2)), nfs4::NFS4_OK);
}

TEST_F(DestroySessionTest, RequiresAConnectionOfTheSession) {
  const Opened client = Open("owner");
  EXPECT_EQ(sessions_.Destroy(client.session, 2, {}), nfs4::NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  connection_.number = 2;
  ASSERT_EQ(Sequence(client.session), nfs4::NFS4_OK);
  EXPECT_EQ(sessions_.Destroy(client.session, 2, {}), nfs4::NFS4_OK);
}

TEST_F(DestroySessionTest, RequestMayDestroyItsOwnSession) {
  const Opened client = Open("owner");
  ASSERT_TRUE(Start(client.session, 0, 1));
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  Finish(client.session, 0, 1);
}

TEST_F(DestroySessionTest, SessionIdIsNotReused) {
  const Opened client = Open("owner");
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  const SessionId next = Create(client.client, 2).reply.csr_resok4().csr_sessionid;
  EXPECT_NE(next, client.session);
  EXPECT_EQ(Sequence(client.session), nfs4::NFS4ERR_BADSESSION);
  EXPECT_EQ(Sequence(next), nfs4::NFS4_OK);
}

TEST_F(BindTest, RefusesAnUnknownSession) {
  EXPECT_EQ(sessions_.Bind(SessionId(), connection_, nfs4::CDFC4_FORE, {}).error(), nfs4::NFS4ERR_BADSESSION);
}

TEST_F(BindTest, BackchannelCtlOfADestroyedSessionGetsDeadSession) {
  const Opened client = Open("owner");
  ASSERT_EQ(sessions_.Destroy(client.session, connection_.number, {}), nfs4::NFS4_OK);
  EXPECT_EQ(sessions_.ControlBackChannel(client.session, 1, {}, {}), nfs4::NFS4ERR_DEADSESSION);
}

TEST_F(BindTest, AddsABackchannelToTheSession) {
  BufferPool buffers;
  const Opened client = Open("owner");
  EXPECT_FALSE(tables_.CanCall(client.client));
  const SessionConnection connection{7, std::make_shared<TestBackChannel>(buffers)};
  EXPECT_EQ(sessions_.Bind(client.session, connection, nfs4::CDFC4_BACK_OR_BOTH, {}), nfs4::CDFS4_BOTH);
  EXPECT_TRUE(tables_.CanCall(client.client));
}

}  // namespace
}  // namespace penstock::nfs::v4
