// Tests persistent sessions (RFC 8881 §2.10.6.5) in the session tables. nfs/v4/operations/session_test.cc tests them
// with operations.
#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/state/clients/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

using nfs4::NFS4_OK;
using nfs4::NFS4ERR_BADSESSION;
using nfs4::NFS4ERR_BADSLOT;
using nfs4::NFS4ERR_DEADSESSION;
using nfs4::NFS4ERR_DELAY;
using testing::IsEmpty;
using testing::SizeIs;

constexpr uint32_t kPersist = nfs4::CREATE_SESSION4_FLAG_PERSIST;

class PersistenceTest : public ClientsTest {
 protected:
  Sessions::CreateResult Ask(ClientId client, uint32_t sequence) {
    return tables_.CreateSession({.client = client,
                                  .sequence = SequenceId(sequence),
                                  .persist = true,
                                  .fore = PlainChannel(),
                                  .back = PlainChannel()},
                                 connection_, User(0), ++random_, now_);
  }
  // Makes a client with a persistent session.
  Opened OpenPersistent(std::string_view owner) {
    const auto exchanged = Exchange(owner);
    const auto created = Ask(exchanged->id, exchanged->sequence.value());
    EXPECT_TRUE(created.room);
    const auto reply =
        sessions_.FinishCreate(exchanged->id, created.session, store_.Create(created.session, *created.room));
    EXPECT_EQ(reply.csr_status(), NFS4_OK);
    EXPECT_EQ(reply.csr_resok4().csr_flags, kPersist);
    return {exchanged->id, created.session};
  }
  // Executes a request and keeps `results` as its reply.
  void Answer(const SessionId& session, uint32_t slot, uint32_t sequence, std::string_view results) {
    const auto started = Start(session, slot, sequence, kFacts);
    ASSERT_TRUE(started);
    ASSERT_TRUE(started->replies);
    const auto message = xdr::Message::Whole(Slice::Borrowed(AsBytes(results)));
    EXPECT_TRUE(started->replies->Keep(SlotId(slot), {SequenceId(sequence), kFacts.digest, message}, true));
    Finish(session, slot, sequence, message);
  }
  StateTables Restarted() {
    return StateTables({.settings = settings_,
                        .instance = 0x65000001,
                        .dead_sessions = DeadSessions(store_.Load(), settings_.lease, now_)});
  }
  Result<Sessions::StartedRequest, nfs4::nfsstat4> Retry(StateTables& tables, const SessionId& session, uint32_t slot,
                                                         uint32_t sequence, Sessions::RequestFacts facts = kFacts) {
    return tables.sessions.RetryInDeadSession({.sa_sessionid = session,
                                               .sa_sequenceid = sequence,
                                               .sa_slotid = slot,
                                               .sa_highest_slotid = slot,
                                               .sa_cachethis = true},
                                              facts, now_);
  }

  static constexpr Sessions::RequestFacts kFacts{.size = 200, .operations = 2, .digest = 77};
  MemoryReplyStore store_;
};

TEST_F(PersistenceTest, RetryAfterARestartGetsTheKeptReply) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 3, 1, "done");
  StateTables again = Restarted();
  connection_.number = 99;
  const auto retried = Retry(again, client.session, 3, 1);
  ASSERT_TRUE(retried);
  EXPECT_EQ(retried->outcome, Sessions::Outcome::kReplay);
  EXPECT_EQ(AsText(retried->reply.stream.bytes()), "done");
}

TEST_F(PersistenceTest, DeadSessionRefusesNewRequests) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "done");
  StateTables again = Restarted();
  EXPECT_EQ(Retry(again, client.session, 0, 2).error(), NFS4ERR_DEADSESSION);
  EXPECT_EQ(Retry(again, client.session, 1, 1).error(), NFS4ERR_DEADSESSION);
  // Requests whose replies were not kept may have advanced the sequence ID before the restart.
  EXPECT_EQ(Retry(again, client.session, 0, 9).error(), NFS4ERR_DEADSESSION);
  EXPECT_EQ(Retry(again, client.session, 0, 0).error(), NFS4ERR_DEADSESSION);
  EXPECT_EQ(Retry(again, client.session, 8, 1).error(), NFS4ERR_BADSLOT);
}

TEST_F(PersistenceTest, UnfinishedRequestIsNotExecutedAgainAfterARestart) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "done");
  ASSERT_TRUE(Start(client.session, 0, 2, kFacts));
  StateTables again = Restarted();
  EXPECT_EQ(Retry(again, client.session, 0, 2).error(), NFS4ERR_DEADSESSION);
}

TEST_F(PersistenceTest, DifferentRequestWithTheSameSequenceIdIsAFalseRetry) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "done");
  StateTables again = Restarted();
  EXPECT_EQ(Retry(again, client.session, 0, 1, {.size = 200, .operations = 2, .digest = 78}).error(),
            nfs4::NFS4ERR_SEQ_FALSE_RETRY);
}

TEST_F(PersistenceTest, NonPersistentSessionEndsWithTheServer) {
  const Opened client = Open("owner");
  EXPECT_FALSE(Start(client.session, 0, 1)->replies);
  StateTables again = Restarted();
  EXPECT_EQ(Retry(again, client.session, 0, 1).error(), NFS4ERR_BADSESSION);
}

// RFC 8881 §8.1: a client ID is not valid after a restart of the server.
TEST_F(PersistenceTest, ClientIdOfADeadSessionIsStale) {
  const Opened client = OpenPersistent("owner");
  StateTables again = Restarted();
  const auto created = again.CreateSession(
      {.client = client.client, .sequence = SequenceId(2), .fore = PlainChannel(), .back = PlainChannel()}, connection_,
      User(0), 1, now_);
  EXPECT_EQ(created.reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
  const auto exchanged =
      again.Exchange({.verifier = Verifier(1), .owner = "owner", .dialect = DialectOf(1)}, User(0), now_);
  ASSERT_TRUE(exchanged);
  EXPECT_FALSE(exchanged->confirmed);
}

TEST_F(PersistenceTest, DeadSessionCanBeBoundAndDestroyed) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "done");
  StateTables again = Restarted();
  EXPECT_EQ(again.sessions.Bind(client.session, connection_, nfs4::CDFC4_FORE_OR_BOTH, {}), nfs4::CDFS4_FORE);
  EXPECT_EQ(again.sessions.Bind(client.session, connection_, nfs4::CDFC4_BACK_OR_BOTH, {}).error(),
            NFS4ERR_DEADSESSION);
  EXPECT_EQ(again.sessions.Destroy(client.session, 5, {}), NFS4_OK);
  EXPECT_EQ(again.sessions.Destroy(client.session, 5, {}), NFS4ERR_BADSESSION);
  EXPECT_EQ(Retry(again, client.session, 0, 1).error(), NFS4ERR_BADSESSION);
  EXPECT_THAT(again.sessions.TakeEnded(now_), SizeIs(1));
}

TEST_F(PersistenceTest, DeadSessionIsForgottenALeaseAfterItsLastRetry) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "done");
  StateTables again = Restarted();
  now_ += kLease;
  EXPECT_THAT(again.sessions.TakeEnded(now_), IsEmpty());
  EXPECT_TRUE(Retry(again, client.session, 0, 1));
  now_ += kLease;
  EXPECT_THAT(again.sessions.TakeEnded(now_), IsEmpty());
  EXPECT_FALSE(Retry(again, client.session, 0, 2));  // a refused request does not prolong the session
  now_ += std::chrono::seconds(1);
  EXPECT_THAT(again.sessions.TakeEnded(now_), SizeIs(1));
  EXPECT_EQ(Retry(again, client.session, 0, 1).error(), NFS4ERR_BADSESSION);
}

TEST_F(PersistenceTest, StorageIsRemovedWithTheSession) {
  const Opened destroyed = OpenPersistent("destroyed"), expired = OpenPersistent("expired");
  OpenPersistent("alive");
  EXPECT_EQ(sessions_.Destroy(destroyed.session, connection_.number, {}), NFS4_OK);
  tables_.End(expired.client, now_);
  const auto ended = sessions_.TakeEnded(now_);
  ASSERT_THAT(ended, SizeIs(2));
  EXPECT_THAT(sessions_.TakeEnded(now_), IsEmpty());
  for (const auto& each : ended) each->Remove();
  EXPECT_THAT(store_.Load(), SizeIs(1));
}

TEST_F(PersistenceTest, CreateSessionWaitsForTheReplyStore) {
  const auto exchanged = Exchange("owner");
  const auto created = Ask(exchanged->id, 1);
  ASSERT_TRUE(created.room);
  EXPECT_EQ(created.room->slots, PlainChannel().ca_maxrequests);
  EXPECT_EQ(created.room->reply, PlainChannel().ca_maxresponsesize_cached);
  EXPECT_EQ(Ask(exchanged->id, 1).reply.csr_status(), NFS4ERR_DELAY);
  const auto reply = sessions_.FinishCreate(exchanged->id, created.session, store_.Create(created.session, {}));
  EXPECT_EQ(Ask(exchanged->id, 1).reply, reply);
}

TEST_F(PersistenceTest, SessionIsNotPersistentWithoutReplyStorage) {
  const auto exchanged = Exchange("owner");
  const auto created = Ask(exchanged->id, 1);
  const auto reply = sessions_.FinishCreate(exchanged->id, created.session, nullptr);
  ASSERT_EQ(reply.csr_status(), NFS4_OK);
  EXPECT_EQ(reply.csr_resok4().csr_flags, 0u);
  EXPECT_FALSE(Start(created.session, 0, 1)->replies);
}

TEST_F(PersistenceTest, FinishCreateFailsIfTheClientHasEnded) {
  const auto exchanged = Exchange("owner");
  const auto created = Ask(exchanged->id, 1);
  tables_.End(exchanged->id, now_);
  const auto reply = sessions_.FinishCreate(exchanged->id, created.session, store_.Create(created.session, {}));
  EXPECT_EQ(reply.csr_status(), nfs4::NFS4ERR_STALE_CLIENTID);
  EXPECT_THAT(sessions_.TakeEnded(now_), SizeIs(1));
}

TEST_F(PersistenceTest, LimitsTheNumberOfPersistentSessions) {
  settings_.max_persistent_sessions = 2;
  const Opened one = OpenPersistent("one");
  const Opened two = OpenPersistent("two");
  const auto third = Exchange("three");
  const auto created = Ask(third->id, 1);
  EXPECT_FALSE(created.room);
  EXPECT_EQ(created.reply.csr_resok4().csr_flags, 0u);
  EXPECT_EQ(sessions_.Destroy(one.session, connection_.number, {}), NFS4_OK);
  EXPECT_TRUE(Ask(third->id, 2).room);
  // The sessions of the previous run count, too.
  settings_.max_persistent_sessions = 1;
  Answer(two.session, 0, 1, "done");
  StateTables again = Restarted();
  const auto new_client =
      again.Exchange({.verifier = Verifier(1), .owner = "four", .dialect = DialectOf(1)}, User(0), now_);
  EXPECT_FALSE(again
                   .CreateSession({.client = new_client->id,
                                   .sequence = SequenceId(1),
                                   .persist = true,
                                   .fore = PlainChannel(),
                                   .back = PlainChannel()},
                                  connection_, User(0), 1, now_)
                   .room);
}

TEST_F(PersistenceTest, StartedRequestTellsWhetherTheClientMayReclaim) {
  const Principal root{rpc::AuthFlavor::AUTH_SYS, 0};
  clients_.grace() = Grace({{OwnerKey(DialectOf(1), "holder"), root}}, now_ + settings_.grace);
  const Opened holder = OpenPersistent("holder");
  const Opened another = OpenPersistent("another");
  EXPECT_TRUE(Start(holder.session, 0, 1, kFacts)->reclaiming);
  EXPECT_FALSE(Start(another.session, 0, 1, kFacts)->reclaiming);
  ASSERT_EQ(clients_.CompleteReclaim(holder.client), nfs4::NFS4_OK);
  EXPECT_FALSE(Start(holder.session, 1, 1, kFacts)->reclaiming);
}

// Otherwise Linux would lose its locks if the server restarted while Linux reclaims them (see DeadSessions).
TEST_F(PersistenceTest, SessionWithoutKeptRepliesIsUnknownAfterARestart) {
  const Opened client = OpenPersistent("owner");
  ASSERT_TRUE(Start(client.session, 0, 1, kFacts));
  StateTables again = Restarted();
  EXPECT_EQ(Retry(again, client.session, 0, 1).error(), NFS4ERR_BADSESSION);
  EXPECT_THAT(again.sessions.TakeEnded(now_), SizeIs(1));
}

TEST_F(PersistenceTest, SessionAcceptsNoNewRequestsAfterLosingPersistence) {
  const Opened client = OpenPersistent("owner");
  Answer(client.session, 0, 1, "one");
  ASSERT_TRUE(Start(client.session, 1, 1, kFacts));
  sessions_.LosePersistence(client.session);
  Finish(client.session, 1, 1, xdr::Message::Whole(Slice::Borrowed(AsBytes("two"))));
  EXPECT_EQ(Start(client.session, 0, 1, kFacts)->outcome, Sessions::Outcome::kReplay);
  EXPECT_EQ(Start(client.session, 1, 1, kFacts)->outcome, Sessions::Outcome::kReplay);
  EXPECT_EQ(Start(client.session, 0, 2, kFacts).error(), NFS4ERR_DEADSESSION);
  EXPECT_EQ(Start(client.session, 2, 1, kFacts).error(), NFS4ERR_DEADSESSION);
  // The client remains, and creates another session.
  EXPECT_EQ(Create(client.client, 2).reply.csr_status(), NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
