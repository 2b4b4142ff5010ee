// The errors that clients get when the tables of opens and locks are full, and the clients that the server removes to
// make room.
#include <string>

#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

constexpr uint32_t kRead = OPEN4_SHARE_ACCESS_READ;

class StateLimitsTest : public StatefulTest {
 protected:
  explicit StateLimitsTest(const Files::Limits& limits = {.states = 4, .states_per_client = 4, .owners = 4})
      : StatefulTest({.delegations = false}, limits) {}
  nfsstat4 Open(SessionClient& client, size_t number) {
    return TryOpen(client, "file", kRead, 0, {}, "owner " + std::to_string(number)).status();
  }
  const nfs_fh4 file = MakeFile("file");
  bool IsKnown(ClientId client) {
    return server.state.Run([&](StateTables& state) { return state.clients.Find(client); }) != nullptr;
  }
};

TEST_F(StateLimitsTest, TellsAClientAtItsLimitThatThereIsNoRoom) {
  for (size_t number = 0; number < 4; ++number) EXPECT_EQ(Open(Client(), number), NFS4_OK);
  EXPECT_EQ(Open(Client(), 4), NFS4ERR_DELAY);
  EXPECT_EQ(Open(Other(), 0), NFS4ERR_DELAY);
  Client0 old(server, "old");
  EXPECT_EQ(old.TryOpen("owner", "file", kRead).status(), NFS4ERR_RESOURCE);
  EXPECT_TRUE(IsKnown(Client().client()));
}

TEST_F(StateLimitsTest, ExpiredClientsMakeRoomForOpensTheLongestSilentFirst) {
  SessionClient silent(server, "silent");
  EXPECT_EQ(Open(Client(), 0), NFS4_OK);
  EXPECT_EQ(Open(Client(), 1), NFS4_OK);
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(Open(silent, 0), NFS4_OK);
  EXPECT_EQ(Open(silent, 1), NFS4_OK);
  PassLease();
  EXPECT_EQ(Open(Other(), 0), NFS4_OK);
  EXPECT_EQ(Open(Other(), 1), NFS4_OK);
  EXPECT_FALSE(IsKnown(Client().client()));
  EXPECT_TRUE(IsKnown(silent.client()));
  EXPECT_EQ(Open(Other(), 2), NFS4_OK);
  EXPECT_FALSE(IsKnown(silent.client()));
}

TEST_F(StateLimitsTest, ExpiredClientsMakeRoomForVersion0) {
  for (size_t number = 0; number < 4; ++number) EXPECT_EQ(Open(Client(), number), NFS4_OK);
  PassLease();
  Client0 old(server, "old");
  EXPECT_EQ(old.TryOpen("owner", "file", kRead).status(), NFS4_OK);
  EXPECT_FALSE(IsKnown(Client().client()));
}

TEST_F(StateLimitsTest, ExpiredClientsStayWhileThereIsRoom) {
  for (size_t number = 0; number < 3; ++number) EXPECT_EQ(Open(Client(), number), NFS4_OK);
  PassLease();
  EXPECT_EQ(Open(Other(), 0), NFS4_OK);
  EXPECT_TRUE(IsKnown(Client().client()));
}

// A new lock state needs an entry in the table, too.
TEST_F(StateLimitsTest, ExpiredClientsMakeRoomForLocks) {
  for (size_t number = 0; number < 3; ++number) EXPECT_EQ(Open(Client(), number), NFS4_OK);
  PassLease();
  const stateid4 open = OpenBy(Other(), "file", kRead);
  const auto locker = NewLocker(Other().client(), open, "locker");
  EXPECT_EQ(Other().Run(PutFh(file), Locking(READ_LT, 0, 1, locker)).status, NFS4_OK);
  EXPECT_FALSE(IsKnown(Client().client()));
}

class RangeLimitsTest : public StateLimitsTest {
 protected:
  RangeLimitsTest() : StateLimitsTest(Files::Limits{.ranges = 3}) {}
  stateid4 LockBy(SessionClient& client, const stateid4& open, uint64_t offset, uint64_t length) {
    const auto locker = NewLocker(client.client(), open, "locker");
    auto reply = client.Run(PutFh(file), Locking(READ_LT, offset, length, locker));
    return reply.Skip().Next<LOCK4res>().resok4().lock_stateid;
  }
};

// Unlocking the middle of a range leaves two ranges.
TEST_F(RangeLimitsTest, ExpiredClientsMakeRoomForARangeThatUnlockSplits) {
  const stateid4 silent = OpenBy(Client(), "file", kRead);
  LockBy(Client(), silent, 0, 1);
  LockBy(Client(), silent, 10, 1);
  PassLease();
  const stateid4 lock = LockBy(Other(), OpenBy(Other(), "file", kRead), 100, 10);
  EXPECT_TRUE(IsKnown(Client().client()));
  const LOCKU4args middle{.locktype = READ_LT, .seqid = 0, .lock_stateid = lock, .offset = 105, .length = 1};
  EXPECT_EQ(Other().Run(PutFh(file), Op(OP_LOCKU, middle)).status, NFS4_OK);
  EXPECT_FALSE(IsKnown(Client().client()));
}

class ClientLimitsTest : public StateLimitsTest {
 protected:
  ClientLimitsTest() : StateLimitsTest(Files::Limits{.states_per_client = 4}) {}
};

TEST_F(ClientLimitsTest, TellsAClientThatItMustCloseAFile) {
  for (size_t number = 0; number < 4; ++number) EXPECT_EQ(Open(Client(), number), NFS4_OK);
  EXPECT_EQ(Open(Client(), 4), NFS4ERR_NOSPC);
  EXPECT_EQ(Open(Other(), 0), NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
