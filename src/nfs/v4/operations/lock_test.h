// Fixtures for tests of byte-range locks: two clients with sessions, and one of minor version 0. Each has a file open.
#pragma once

#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {

class LockTest : public StatefulTest {
 protected:
  LOCK4res TryLock(SessionClient& client, const stateid4& under, std::string_view owner, uint64_t offset,
                   uint64_t length, nfs_lock_type4 type = WRITE_LT) {
    auto reply = client.Run(PutFh(file), Locking(type, offset, length, NewLocker(client.client(), under, owner)));
    return reply.Skip().Next<LOCK4res>();
  }
  stateid4 LockBy(SessionClient& client, const stateid4& under, std::string_view owner, uint64_t offset,
                  uint64_t length, nfs_lock_type4 type = WRITE_LT) {
    const auto locked = TryLock(client, under, owner, offset, length, type);
    EXPECT_EQ(locked.status(), NFS4_OK);
    return locked.resok4().lock_stateid;
  }
  nfsstat4 StatusOfTest(SessionClient& client, uint64_t offset, uint64_t length) {
    return client.Run(PutFh(file), TestingLock(client.client(), "tester", offset, length)).status;
  }

  const nfs_fh4 file = MakeFile("file", "data");
  const stateid4 open = OpenBy(Client(), "file", kBoth);
  const stateid4 others = OpenBy(Other(), "file", kBoth);
};

class Lock0Test : public StatefulTest {
 protected:
  LOCK4res LockNew(std::string_view locker, uint64_t offset, uint64_t length, uint32_t lock_seqid = 0,
                   nfs_lock_type4 type = WRITE_LT) {
    const uint32_t seqid = client.seqid("owner");
    auto reply =
        Run0(PutFh(file), Locking(type, offset, length, NewLocker(client.id(), open, locker, seqid, lock_seqid)));
    const auto locked = reply.Skip().Next<LOCK4res>();
    if (IsSequenced(locked.status())) client.Advance("owner");
    return locked;
  }
  LOCK4res LockMore(const stateid4& lock, uint32_t seqid, uint64_t offset, uint64_t length) {
    auto reply = Run0(PutFh(file), Locking(WRITE_LT, offset, length, KnownLocker(lock, seqid)));
    return reply.Skip().Next<LOCK4res>();
  }
  CompoundReply Unlock(const stateid4& lock, uint32_t seqid, uint64_t offset, uint64_t length) {
    return Run0(PutFh(file), Unlocking(lock, offset, length, seqid));
  }

  const nfs_fh4 file = MakeFile("file", "data");
  Client0 client{server, "of 4.0"};
  const stateid4 open = client.Open("owner", "file", kBoth);
};

}  // namespace penstock::nfs::v4
