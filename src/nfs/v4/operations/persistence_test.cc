// Persistent sessions (RFC 8881 §2.10.6.5): the server restarts, and its clients retry their requests.
#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/operations/lease.h"
#include "xdr/flatten.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// A reply store that can imitate a full disk and records its calls.
class WatchedStore : public MemoryReplyStore {
 public:
  bool full = false;
  std::vector<bool> kept;  // for each kept reply: whether it must be synced

  std::shared_ptr<SessionReplies> Create(const SessionId& session, const ReplyRoom& room) override {
    if (full) return nullptr;
    return std::make_shared<Watched>(*this, MemoryReplyStore::Create(session, room));
  }

 private:
  class Watched : public SessionReplies {
   public:
    Watched(WatchedStore& store, std::shared_ptr<SessionReplies> session)
        : store_(store), session_(std::move(session)) {}
    bool Keep(SlotId slot, const KeptReply& reply, bool lasting) override {
      if (store_.full) return false;
      store_.kept.push_back(lasting);
      return session_->Keep(slot, reply, lasting);
    }
    void Remove() override { session_->Remove(); }

   private:
    WatchedStore& store_;
    const std::shared_ptr<SessionReplies> session_;
  };
};

class PersistentSessionTest : public testing::Test {
 protected:
  // The data are not stable yet.
  static auto WriteFile() { return Op(OP_WRITE, WRITE4args{{}, 0, UNSTABLE4, xdr::Payload<>::Borrowed("contents")}); }

  PersistentSessionTest() {
    Populate(before);
    client.emplace(before, "client", 2, CREATE_SESSION4_FLAG_PERSIST);
    EXPECT_EQ(client->flags(), CREATE_SESSION4_FLAG_PERSIST);
    // The first kept reply makes the session known after a restart.
    EXPECT_EQ(Send(before, Encode(client->Sequence(true), PutRoot(), LookUp("file"), WriteFile())).status, NFS4_OK);
    store->kept.clear();
  }

  // Creates the files of a server. Both servers get the same filehandles.
  static void Populate(Nfs4Server& server) {
    fs::memory::FileSystem& tree = server.Export("/");
    fs::CreateHow how;
    how.mode = fs::CreateMode::kGuarded;
    const auto made = Now(tree.Create(AsRoot(), tree.Root(), "file", how));
    const Data data = Slice::Borrowed(AsBytes("contents"));
    EXPECT_TRUE(Now(tree.Write(AsRoot(), made.result->handle, 0, data, fs::Stability::kFileSync)).result);
  }
  static fs::RequestContext AsRoot() { return {.credentials = {.uid = 0, .gid = 0, .groups = {}}}; }

  // Starts a new server with the stored replies. Its files are in their first state, so that a second execution would
  // succeed.
  Nfs4Server& Restart() {
    after.emplace(Settings(), store, Nfs4Server::kInstance + 1);
    Populate(*after);
    return *after;
  }
  template <class... Arguments>
  rpc::Message Encode(const Sent<Arguments>&... operations) {
    return before.Encode(2, operations...);
  }
  static CompoundReply Send(Nfs4Server& server, rpc::Message call) {
    return CompoundReply(server.Ask(std::move(call)));
  }
  static auto RemoveFile() { return Op(OP_REMOVE, REMOVE4args{"file"}); }
  static bool HasFile(Nfs4Server& server) { return server.Run(0, PutRoot(), LookUp("file")).status == NFS4_OK; }
  static auto OpenFile(openflag4 how) {
    return Op(OP_OPEN, OPEN4args{.seqid = 0,
                                 .share_access = OPEN4_SHARE_ACCESS_READ,
                                 .share_deny = OPEN4_SHARE_DENY_NONE,
                                 .owner = {.clientid = 0, .owner = {AsBytes("owner")}},
                                 .openhow = std::move(how),
                                 .claim = open_claim4(CLAIM_NULL, component4("new"))});
  }

  const std::shared_ptr<WatchedStore> store = std::make_shared<WatchedStore>();
  Nfs4Server before{{}, store};
  std::optional<Nfs4Server> after;
  std::optional<SessionClient> client;
};

TEST_F(PersistentSessionTest, RepliesToARetryAfterARestartWithoutExecution) {
  const auto sequence = client->Sequence(true);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  const auto first = Send(before, remove());
  ASSERT_EQ(first.status, NFS4_OK);
  Nfs4Server& server = Restart();
  const auto again = Send(server, remove());
  EXPECT_EQ(again.status, NFS4_OK);
  EXPECT_EQ(again.count, 3u);
  const auto results = [](const CompoundReply& reply) {
    return reply.answer().message.stream.bytes().subspan(reply.answer().results_at);
  };
  EXPECT_TRUE(Equal(results(first), results(again)));
  EXPECT_TRUE(HasFile(server));
}

TEST_F(PersistentSessionTest, RepeatsPayloadsSeparatelyOverAnyTransport) {
  const auto sequence = client->Sequence(true);
  const auto read = [&] {
    return Encode(sequence, PutRoot(), LookUp("file"), Op(OP_READ, READ4args{{}, 0, 100}), PutRoot(), RemoveFile());
  };
  ASSERT_EQ(Send(before, read()).status, NFS4_OK);
  Nfs4Server& server = Restart();
  const rpc::Message call = read();
  auto again = Send(server, rpc::Message::Whole(xdr::Unreduce(server.buffers, call)));
  EXPECT_EQ(again.Next<SEQUENCE4res>().sr_status(), NFS4_OK);
  EXPECT_EQ(again.Skip(2).Next<READ4res>().resok4().data.text(), "contents");
  EXPECT_EQ(again.answer().message.items.size(), 1u);
}

TEST_F(PersistentSessionTest, DoesNotExecuteANewRequestAfterARestart) {
  ASSERT_EQ(Send(before, Encode(client->Sequence(true), PutRoot(), RemoveFile())).status, NFS4_OK);
  Nfs4Server& server = Restart();
  const auto refused = Send(server, Encode(client->Sequence(true), PutRoot(), RemoveFile()));
  EXPECT_EQ(refused.status, NFS4ERR_DEADSESSION);
  EXPECT_EQ(refused.count, 1u);
  EXPECT_TRUE(HasFile(server));
}

// This imitates a server that is killed between the execution and the storing of the reply.
TEST_F(PersistentSessionTest, DoesNotExecuteAnUnrecordedRequestAgain) {
  const auto sequence = client->Sequence(true);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  store->full = true;
  ASSERT_EQ(Send(before, remove()).status, NFS4_OK);
  Nfs4Server& server = Restart();
  EXPECT_EQ(Send(server, remove()).status, NFS4ERR_DEADSESSION);
  EXPECT_TRUE(HasFile(server));
}

TEST_F(PersistentSessionTest, WritesNothingForUncachedRequestsAndDoesNotRepeatThem) {
  const auto sequence = client->Sequence(false);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  ASSERT_EQ(Send(before, remove()).status, NFS4_OK);
  EXPECT_THAT(store->kept, IsEmpty());
  Nfs4Server& server = Restart();
  EXPECT_EQ(Send(server, remove()).status, NFS4ERR_DEADSESSION);
  EXPECT_TRUE(HasFile(server));
}

TEST_F(PersistentSessionTest, WritesNothingForOtherSessions) {
  SessionClient other(before, "other");
  EXPECT_EQ(other.flags(), 0u);
  EXPECT_EQ(Send(before, Encode(other.Sequence(true), PutRoot(), RemoveFile())).status, NFS4_OK);
  EXPECT_THAT(store->kept, IsEmpty());
}

// RFC 8881 §2.10.6.5 also covers a loss of power: after it, the stored reply must agree with the change that the file
// system has made stable.
TEST_F(PersistentSessionTest, SyncsAReplyOnlyIfTheChangeIsStable) {
  const auto run = [&](const auto&... operations) {
    EXPECT_EQ(Send(before, Encode(client->Sequence(true), operations...)).status, NFS4_OK);
  };
  run(PutRoot(), LookUp("file"), WriteFile());
  run(PutRoot(), RemoveFile());
  EXPECT_THAT(store->kept, ElementsAre(false, true));
}

// After the restart, an OPEN that changed no file is the same as one that was never executed. But another client may
// have the state that a request has given up.
TEST_F(PersistentSessionTest, KeepsTheRepliesToChangesExceptThoseThatOnlyOpenAFile) {
  const auto create = [] { return OpenFile({OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{})}); };
  std::optional<CompoundReply> reply;
  const auto keeps = [&](const auto&... operations) {
    const size_t before_it = store->kept.size();
    reply = Send(before, Encode(client->Sequence(true), operations...));
    EXPECT_EQ(reply->status, NFS4_OK);
    return store->kept.size() > before_it;
  };
  EXPECT_FALSE(keeps(PutRoot(), LookUp("file")));
  EXPECT_TRUE(keeps(PutRoot(), create()));
  EXPECT_FALSE(keeps(PutRoot(), create())) << "the file exists";
  EXPECT_EQ(reply->Next<SEQUENCE4res>().sr_status(), NFS4_OK);
  const stateid4 open = reply->Skip().Next<OPEN4res>().resok4().stateid;
  EXPECT_TRUE(keeps(PutRoot(), LookUp("new"), Op(OP_CLOSE, CLOSE4args{0, open})));
  EXPECT_TRUE(keeps(PutRoot(), RemoveFile()));
}

TEST_F(PersistentSessionTest, ARetryInASessionThatHasKeptNoReplyIsNotExecuted) {
  SessionClient other(before, "other", 2, CREATE_SESSION4_FLAG_PERSIST);
  const auto sequence = other.Sequence(true);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  store->full = true;
  ASSERT_EQ(Send(before, remove()).status, NFS4_OK);
  Nfs4Server& server = Restart();
  EXPECT_EQ(Send(server, remove()).status, NFS4ERR_BADSESSION);
  EXPECT_TRUE(HasFile(server));
}

// The name is there, but the directory could not be synced.
TEST_F(PersistentSessionTest, KeepsTheReplyToACreationThatFailedAfterItHadMadeTheFile) {
  before.faults->Add({.operation = fs::faulty::Operation::kCreate,
                      .effect = FailWith(fs::Error::kIo, fs::faulty::Effect::Moment::kAfter)});
  const auto create = OpenFile({OPEN4_CREATE, createhow4(UNCHECKED4, fattr4{})});
  EXPECT_EQ(Send(before, Encode(client->Sequence(true), PutRoot(), create)).status, NFS4ERR_IO);
  EXPECT_THAT(store->kept, ElementsAre(true));
}

TEST_F(PersistentSessionTest, SessionEndsAfterAReplyThatCannotBeStored) {
  store->full = true;
  const auto sequence = client->Sequence(true);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  EXPECT_EQ(Send(before, remove()).status, NFS4_OK);
  EXPECT_EQ(Send(before, remove()).status, NFS4_OK);  // the reply is in memory
  EXPECT_EQ(Send(before, Encode(client->Sequence(false), PutRoot())).status, NFS4ERR_DEADSESSION);
  EXPECT_EQ(before.Run(2, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{client->session()})).status, NFS4_OK);
}

TEST_F(PersistentSessionTest, MakesANonPersistentSessionWithoutRoom) {
  store->full = true;
  SessionClient other(before, "other", 2, CREATE_SESSION4_FLAG_PERSIST);
  EXPECT_EQ(other.flags(), 0u);
  EXPECT_EQ(other.Run(PutRoot()).status, NFS4_OK);
}

// RFC 8881 §18.16.3
TEST_F(PersistentSessionTest, AllowsGuardedCreationInsteadOfExclusive) {
  const auto exclusive = OpenFile({OPEN4_CREATE, createhow4(EXCLUSIVE4, verifier4{})});
  EXPECT_EQ(client->Run(PutRoot(), exclusive).status, NFS4ERR_INVAL);
  SessionClient other(before, "other");
  EXPECT_EQ(other.Run(PutRoot(), exclusive).status, NFS4_OK);
}

TEST_F(PersistentSessionTest, ClientMakesANewSessionAfterItsRetries) {
  const auto sequence = client->Sequence(true);
  const auto remove = [&] { return Encode(sequence, PutRoot(), RemoveFile()); };
  ASSERT_EQ(Send(before, remove()).status, NFS4_OK);
  Nfs4Server& server = Restart();
  EXPECT_EQ(Send(server, remove()).status, NFS4_OK);
  EXPECT_EQ(server.Run(1, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{client->session()})).status, NFS4_OK);
  EXPECT_EQ(Send(server, remove()).status, NFS4ERR_BADSESSION);
  SessionClient anew(server, "client", 2, CREATE_SESSION4_FLAG_PERSIST);
  EXPECT_EQ(anew.flags(), CREATE_SESSION4_FLAG_PERSIST);
  EXPECT_EQ(anew.Run(PutRoot(), RemoveFile()).status, NFS4_OK);
}

TEST_F(PersistentSessionTest, RemovesTheStorageOfEndedSessions) {
  EXPECT_THAT(store->Load(), SizeIs(1));
  EXPECT_EQ(before.Run(2, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{client->session()})).status, NFS4_OK);
  Spawn(KeepLeases(before.GetServices(), nullptr));
  EXPECT_THAT(store->Load(), IsEmpty());
}

TEST_F(PersistentSessionTest, RemovesTheStorageOfClientsThatDoNotReturn) {
  Nfs4Server& server = Restart();
  server.clock.now += server.settings.lease;
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_THAT(store->Load(), SizeIs(1));
  server.clock.now += std::chrono::seconds(1);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_THAT(store->Load(), IsEmpty());
}

}  // namespace
}  // namespace penstock::nfs::v4
