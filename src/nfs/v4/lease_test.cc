// The tables and the recovery store together.
#include "nfs/v4/lease.h"

#include "nfs/v4/nfs4_test.h"
#include "nfs/v4/state/test_clients.h"

namespace penstock::nfs::v4 {
namespace {

// A disk that may be full.
class FullStore : public MemoryRecoveryStore {
 public:
  explicit FullStore(bool& full) : full_(full) {}
  bool Record(const RecoveryRecord& client) override { return !full_ && MemoryRecoveryStore::Record(client); }
  bool Remove(const std::string& owner) override { return !full_ && MemoryRecoveryStore::Remove(owner); }
  bool EndGrace() override { return !full_ && MemoryRecoveryStore::EndGrace(); }

 private:
  bool& full_;
};

// Without a loop everything is done at once.
class LeaseTest : public Nfs4Test {
 protected:
  LeaseTest() {
    auto made = std::make_unique<FullStore>(full_);
    store_ = made.get();
    recovery_ = std::make_unique<RecoveryQueue>(std::move(made));
    Client();
    services_.emplace(Services{.names = *server.names,
                               .settings = server.settings,
                               .owners = server.owners,
                               .state = server.state,
                               .callbacks = server.callbacks,
                               .recovery = *recovery_,
                               .clock = server.clock});
  }
  // Who could reclaim if the server started again now.
  std::vector<std::string> Reclaimers() {
    std::vector<std::string> owners;
    const auto restart = store_->Begin({}, {});
    for (const RecoveryRecord& client : restart->clients) owners.push_back(client.owner);
    return owners;
  }
  nfsstat4 Record(ClientId client) { return Now(RecordClient(*services_, nullptr, client)); }
  bool Forget(ClientId client) { return Now(ForgetExpired(*services_, nullptr, client)); }
  void BeginGrace(const std::string& owner) {
    const Principal root{rpc::AuthFlavor::AUTH_SYS, 0};
    server.state.Lock()->clients.grace() =
        Grace({{OwnerKey(1, owner), root}}, server.clock.Now() + server.settings.grace);
  }
  bool InGrace() { return server.state.Lock()->clients.InGrace(); }

  bool full_ = false;
  FullStore* store_ = nullptr;
  std::unique_ptr<RecoveryQueue> recovery_;
  std::optional<Services> services_;
};

TEST_F(LeaseTest, AClientIsRecordedBeforeItsFirstOpen) {
  EXPECT_EQ(Record(Client().client()), NFS4_OK);
  EXPECT_EQ(Reclaimers(), std::vector{OwnerKey(1, "client")});
  EXPECT_FALSE(server.state.Lock()->clients.NeedsRecord(Client().client()));
}

TEST_F(LeaseTest, AClientThatCannotBeRecordedWaits) {
  full_ = true;
  EXPECT_EQ(Record(Client().client()), NFS4ERR_DELAY);
  full_ = false;
  EXPECT_EQ(Record(Client().client()), NFS4_OK);
}

// RFC 8881 §8.4.3, the first edge condition.
TEST_F(LeaseTest, WhoeverLosesItsStateMayNotReclaimIt) {
  ASSERT_EQ(Record(Client().client()), NFS4_OK);
  EXPECT_FALSE(Forget(Client().client()));
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  EXPECT_TRUE(Forget(Client().client()));
  EXPECT_TRUE(Reclaimers().empty());
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
  EXPECT_TRUE(Forget(Client().client()));
}

TEST_F(LeaseTest, StateStaysWhereTheStoreCannotForgetIt) {
  ASSERT_EQ(Record(Client().client()), NFS4_OK);
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  full_ = true;
  EXPECT_FALSE(Forget(Client().client()));
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4_OK);
}

TEST_F(LeaseTest, GraceEndsInTimeAndNotBeforeTheStoreHasForgotten) {
  BeginGrace("somebody");
  Spawn(EndGraceIfDue(*services_, nullptr));
  EXPECT_TRUE(InGrace());
  server.clock.now += server.settings.grace;
  full_ = true;
  Spawn(KeepLeases(*services_, nullptr));
  EXPECT_TRUE(InGrace());
  full_ = false;
  Spawn(KeepLeases(*services_, nullptr));
  EXPECT_FALSE(InGrace());
}

TEST_F(LeaseTest, GraceEndsWhenTheLastHasReclaimed) {
  BeginGrace("late");
  EXPECT_TRUE(InGrace());
  SessionClient late(server, "late");  // which says at once that it is done
  EXPECT_FALSE(InGrace());
}

TEST_F(LeaseTest, ClientsWhoseCourtesyIsOverGo) {
  const ClientId client = Client().client();
  server.clock.now += server.settings.lease + std::chrono::seconds(1);
  Spawn(KeepLeases(*services_, nullptr));
  EXPECT_FALSE(server.state.Lock()->clients.Has(client));
}

// RFC 8881 §20.8
class SlotRecallTest : public Nfs4Test {
 protected:
  SlotRecallTest() : Nfs4Test(Settings{.max_slots = 4, .max_kept_octets = 0}) {}
};

TEST_F(SlotRecallTest, SlotsAreRecalledWhereMemoryIsShort) {
  const SessionId session = Client().session();
  const auto channel = std::make_shared<TestBackChannel>(server.buffers);
  EXPECT_TRUE(server.state.Lock()->clients.Bind(session, {99, channel}, CDFC4_BACK));
  EXPECT_EQ(server.Run(2, Client().Sequence(true), PutRoot()).status, NFS4_OK);
  Spawn(KeepLeases(server.GetServices(), nullptr));
  EXPECT_THAT(server.callbacks.slots, testing::ElementsAre(std::pair(session, SlotId(1))));
}

}  // namespace
}  // namespace penstock::nfs::v4
