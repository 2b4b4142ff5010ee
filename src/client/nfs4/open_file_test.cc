#include "client/nfs4/open_file.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/loop.h"
#include "base/test_loop.h"
#include "xdr/decode.h"
#include "xdr/encode.h"

namespace penstock::client::v4 {
namespace {

using nfs4::nfs_opnum4;
using nfs4::nfsstat4;

class NoChannel final : public rpc::Channel {
 public:
  Task<Result<rpc::Message, rpc::CallError>> Call(rpc::Message, rpc::ReplyShape) override {
    co_return std::unexpected(rpc::CallError::kDisconnected);
  }
};

// A server with one open file, together with the client id at it. The test restarts it.
class FakeCaller final : public CompoundCaller {
 public:
  FakeCaller(Loop& loop, rpc::Client& client, const Dialect& dialect)
      : CompoundCaller(loop, client, {.dialect = &dialect, .owner = "client"}), loop_(loop) {}

  // The status of the reclaim of the open, and of reclaims of locks by their offset. By default they succeed.
  nfsstat4 open_reclaimed = nfsstat4::NFS4_OK;
  std::map<uint64_t, nfsstat4> locks_reclaimed;
  bool delegates = false;                   // each OPEN gives a write delegation, which is recalled at once
  std::vector<nfs4::stateid4> delegations;  // that the client has not returned
  // The status of the next LOCK or LOCKU. Later ones succeed.
  nfsstat4 next_lock = nfsstat4::NFS4_OK;
  nfsstat4 next_read = nfsstat4::NFS4_OK;  // the same for READ
  int opens = 0;
  bool restarts_in_unlock = false;  // the server restarts after it has executed the next LOCKU, before the reply
  int reclaimed_locks = 0;
  std::set<uint64_t> locked;  // the offsets of the locks

  void Restart() {
    ++epoch_;
    ready_ = false;
    locked.clear();
  }

  Task<void> Close() override { return EndBackground(); }
  nfs4::clientid4 client() const override { return epoch_; }
  uint64_t epoch() const override { return epoch_; }
  Duration lease_time() const override { return std::chrono::seconds(90); }

 private:
  bool ready() const override { return ready_; }
  int step() const override { return ready_ ? 1 : 0; }
  Task<Result<void>> TakeStep(std::string_view) override {
    co_await Reclaim();
    ready_ = true;
    co_return Result<void>();
  }
  TimePoint renewed_at() const override { return timers_.Now(); }
  Task<void> RenewLease() override { co_return; }
  void HandleLeaseTime(Duration) override {}

  Task<Result<Executed>> Execute(Compound& compound, std::string_view) override {
    xdr::Encoder arguments(loop_.buffers());
    compound.Encode(arguments);
    const rpc::Message call = arguments.Finish();
    xdr::Decoder in(call);
    xdr::Encoder out(loop_.buffers());
    Executed executed;
    while (executed.count < compound.count && executed.status == nfsstat4::NFS4_OK) {
      executed.status = One(in, out);
      ++executed.count;
    }
    executed.message = out.Finish();
    xdr::Decoder results(executed.message);
    EXPECT_TRUE(compound.Decode(results, executed.count));
    co_return executed;
  }

  template <class T>
  static T Arguments(xdr::Decoder& in) {
    T arguments;
    EXPECT_TRUE(xdr::Decode(in, arguments));
    return arguments;
  }
  nfs4::stateid4 NewStateid() {
    nfs4::stateid4 stateid;
    stateid.seqid = ++last_stateid_;
    return stateid;
  }

  nfsstat4 One(xdr::Decoder& in, xdr::Encoder& out) {
    nfs_opnum4 operation;
    EXPECT_TRUE(xdr::Decode(in, operation));
    xdr::Encode(out, operation);
    switch (operation) {
      case nfs_opnum4::OP_PUTFH:
        Arguments<nfs4::PUTFH4args>(in);
        xdr::Encode(out, nfsstat4::NFS4_OK);
        return nfsstat4::NFS4_OK;
      case nfs_opnum4::OP_OPEN: {
        Arguments<nfs4::OPEN4args>(in);
        ++opens;
        nfs4::OPEN4resok result;
        result.stateid = NewStateid();
        if (delegates) {
          delegations.push_back(NewStateid());
          nfs4::open_write_delegation4 given;
          given.stateid = delegations.back();
          given.recall = true;
          result.delegation = nfs4::open_delegation4(nfs4::open_delegation_type4::OPEN_DELEGATE_WRITE, given);
        }
        xdr::Encode(out, open_reclaimed == nfsstat4::NFS4_OK ? nfs4::OPEN4res(open_reclaimed, result)
                                                             : nfs4::OPEN4res(open_reclaimed));
        return open_reclaimed;
      }
      case nfs_opnum4::OP_READ: {
        Arguments<nfs4::READ4args>(in);
        const nfsstat4 status = std::exchange(next_read, nfsstat4::NFS4_OK);
        xdr::Encode(out, status == nfsstat4::NFS4_OK ? nfs4::READ4res(status, nfs4::READ4resok{.eof = true, .data = {}})
                                                     : nfs4::READ4res(status));
        return status;
      }
      case nfs_opnum4::OP_LOCK: {
        const auto lock = Arguments<nfs4::LOCK4args>(in);
        const auto wanted = locks_reclaimed.find(lock.offset);
        nfsstat4 status = std::exchange(next_lock, nfsstat4::NFS4_OK);
        if (lock.reclaim) {
          ++reclaimed_locks;
          if (wanted != locks_reclaimed.end()) status = wanted->second;
        }
        if (status == nfsstat4::NFS4_OK) {
          locked.insert(lock.offset);
          xdr::Encode(out, nfs4::LOCK4res(status, nfs4::LOCK4resok{NewStateid()}));
        } else {
          xdr::Encode(out, nfs4::LOCK4res(status));
        }
        return status;
      }
      case nfs_opnum4::OP_LOCKU: {
        const auto unlock = Arguments<nfs4::LOCKU4args>(in);
        nfsstat4 status = std::exchange(next_lock, nfsstat4::NFS4_OK);
        if (std::exchange(restarts_in_unlock, false)) {
          Restart();
          status = nfsstat4::NFS4ERR_STALE_STATEID;
        }
        std::erase_if(
            locked, [&](uint64_t offset) { return offset >= unlock.offset && offset - unlock.offset < unlock.length; });
        xdr::Encode(out, status == nfsstat4::NFS4_OK ? nfs4::LOCKU4res(status, NewStateid()) : nfs4::LOCKU4res(status));
        return status;
      }
      case nfs_opnum4::OP_DELEGRETURN: {
        const auto returned = Arguments<nfs4::DELEGRETURN4args>(in);
        EXPECT_EQ(std::erase(delegations, returned.deleg_stateid), 1u);
        xdr::Encode(out, nfs4::DELEGRETURN4res{nfsstat4::NFS4_OK});
        return nfsstat4::NFS4_OK;
      }
      default:
        ADD_FAILURE() << "operation " << static_cast<int>(operation);
        return nfsstat4::NFS4ERR_NOTSUPP;
    }
  }

  Loop& loop_;
  uint64_t epoch_ = 1;
  bool ready_ = true;
  uint32_t last_stateid_ = 0;
};

class LostLocksTest : public testing::TestWithParam<const Dialect*>, protected FileOwner {
 protected:
  LostLocksTest() {
    server.set_reclaim([this]() -> Task<void> {
      for (OpenFile* each : files) co_await each->Reclaim();
    });
    const Delegations::Asking asking(table);
    nfs4::OPEN4resok opened;
    Spawn([](OpenFile& opening, const Delegations::Asking& asked, const nfs4::OPEN4resok& result) -> Task<void> {
      const Attributes attributes;
      const Result<void> done = co_await opening.HandleOpened(asked, result, 1, opening.node().handle, attributes);
      EXPECT_TRUE(done);
    }(*file, asking, opened));
  }
  ~LostLocksTest() override { Spawn(server.Close()); }

  CompoundCaller& caller() override { return server; }
  Delegations& delegations() override { return table; }
  const TransferSizes& transfer_sizes() const override { return sizes; }
  StateOwner NewOwner(std::string_view name) override { return StateOwner(++owners, name); }
  void Add(OpenFile& added) override { files.insert(&added); }
  void Remove(OpenFile& removed) override { files.erase(&removed); }
  void HandleOpened(const Handle&, uint64_t) override {}
  void Free(const nfs4::stateid4&) override {}

  // Locks or unlocks ten octets. Returns the status of the error, or nothing after success.
  std::optional<Status> Lock(const char* owner, uint64_t offset) {
    return StatusOf(file->locks().Lock(owner, {offset, 10}, LockKind::kExclusive, Duration::zero(), nullptr));
  }
  std::optional<Status> Unlock(const char* owner, uint64_t offset) {
    return StatusOf(file->locks().Unlock(owner, {offset, 10}));
  }
  std::optional<Status> Read() {
    return StatusOf([](OpenFile& from) -> Task<Result<void>> {
      const auto make = [](const nfs4::stateid4& stateid) { return nfs4::READ4args{stateid, 0, 0}; };
      auto reply = co_await from.Do(Access::kRead, make);
      if (!reply) co_return std::unexpected(std::move(reply).error());
      co_return Result<void>();
    }(*file));
  }
  // Lets the client notice the restart of the server and reclaim its state.
  void Recover() { EXPECT_EQ(StatusOf(server.Ready("file")), std::nullopt); }

  std::optional<Status> StatusOf(Task<Result<void>> task) {
    std::optional<Result<void>> result;
    Spawn([](Task<Result<void>> inner, std::optional<Result<void>>& out) -> Task<void> {
      out.emplace(co_await std::move(inner));
    }(std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop, [&] { return result.has_value(); }));
    if (*result) return std::nullopt;
    return result->error().status.value_or(Status::kOk);
  }

  static constexpr std::optional<Status> kDone = std::nullopt;
  Loop loop;
  NoChannel channel;
  rpc::Client client{channel, loop.buffers(), rpc::Xid(1)};
  FakeCaller server{loop, client, *GetParam()};
  struct NoState final : StateHolder {
    std::vector<nfs4::stateid4> stateids() const override { return {}; }
    void HandleTested(const nfs4::stateid4&, nfs4::nfsstat4) override {}
  } none;
  RevokedState revoked{server, none};
  Delegations table{server, revoked, 0};
  TransferSizes sizes;
  uint64_t owners = 0;
  std::set<OpenFile*> files;
  std::shared_ptr<OpenFile> file = std::make_shared<OpenFile>(static_cast<FileOwner&>(*this), Node(), "file",
                                                              Access::kBoth, StateOwner(++owners, "open"));
};

TEST_P(LostLocksTest, ReclaimedLocksAreKeptWithoutAnError) {
  EXPECT_EQ(Lock("one", 0), kDone);
  EXPECT_EQ(Lock("two", 20), kDone);
  server.Restart();
  Recover();
  EXPECT_EQ(server.reclaimed_locks, 2);
  EXPECT_EQ(server.locked, (std::set<uint64_t>{0, 20}));
  EXPECT_EQ(Unlock("one", 0), kDone);
  EXPECT_EQ(Lock("two", 40), kDone);
}

// RFC 8881 §8.2.2: a second OPEN gives a later stateid, and the server refuses the one that requests under way have.
TEST_P(LostLocksTest, AFileThatIsReclaimedIsNotOpenedAgain) {
  server.Restart();
  EXPECT_EQ(Read(), kDone);
  EXPECT_EQ(server.opens, 1) << "the reclaim";
}

TEST_P(LostLocksTest, ARequestWithAnOldStateidIsSentAgain) {
  server.next_read = nfsstat4::NFS4ERR_OLD_STATEID;
  EXPECT_EQ(Read(), kDone);
  EXPECT_EQ(server.opens, 0);
}

// Otherwise the server waits for it before it executes other calls, also those of this client.
TEST_P(LostLocksTest, ReturnsADelegationThatItHasNotReclaimed) {
  EXPECT_EQ(Lock("one", 0), kDone);
  server.delegates = true;
  server.Restart();
  Recover();
  EXPECT_TRUE(TurnUntil(loop, [&] { return server.delegations.empty(); }));
  EXPECT_EQ(Unlock("one", 0), kDone) << "the file stays open";
}

// RFC 8881 §8.4.2.1, §8.4.3: the owner must learn that it has lost its lock.
TEST_P(LostLocksTest, ALockThatIsNotReclaimedIsReportedToItsOwnerOnce) {
  for (const nfsstat4 refusal :
       {nfsstat4::NFS4ERR_NO_GRACE, nfsstat4::NFS4ERR_RECLAIM_BAD, nfsstat4::NFS4ERR_RECLAIM_CONFLICT}) {
    EXPECT_EQ(Lock("one", 0), kDone);
    EXPECT_EQ(Lock("two", 20), kDone);
    server.locks_reclaimed = {{20, refusal}};
    server.Restart();
    Recover();
    EXPECT_EQ(server.locked, std::set<uint64_t>{0});
    EXPECT_EQ(Lock("one", 60), kDone) << "this owner has lost no lock";
    EXPECT_EQ(Lock("two", 40), Status::kExpired);
    EXPECT_EQ(server.locked, (std::set<uint64_t>{0, 60})) << "a failed call holds no lock";
    EXPECT_EQ(Lock("two", 20), kDone) << "the owner has been told";
    EXPECT_EQ(Unlock("two", 20), kDone);
    EXPECT_EQ(Unlock("one", 0), kDone);
    EXPECT_EQ(Unlock("one", 60), kDone);
  }
}

TEST_P(LostLocksTest, UnlockReportsALostLock) {
  EXPECT_EQ(Lock("one", 0), kDone);
  server.locks_reclaimed = {{0, nfsstat4::NFS4ERR_NO_GRACE}};
  server.Restart();
  EXPECT_EQ(Unlock("one", 0), Status::kExpired);
  EXPECT_EQ(Unlock("one", 0), kDone);
}

// The server may have unlocked the range before the restart, and another client may have locked it.
TEST_P(LostLocksTest, DoesNotReclaimALockThatIsBeingUnlocked) {
  EXPECT_EQ(Lock("one", 0), kDone);
  EXPECT_EQ(Lock("one", 20), kDone);
  server.restarts_in_unlock = true;
  EXPECT_EQ(Unlock("one", 0), kDone);
  EXPECT_EQ(server.reclaimed_locks, 1);
  EXPECT_EQ(server.locked, std::set<uint64_t>{20});
  server.restarts_in_unlock = true;
  EXPECT_EQ(Unlock("one", 20), kDone);
  EXPECT_EQ(server.reclaimed_locks, 1);
  server.Restart();
  Recover();
  EXPECT_EQ(server.reclaimed_locks, 1) << "the owner holds no lock any more";
}

// The error does not say which lock is lost, so the owner would never unlock the others.
TEST_P(LostLocksTest, AnOwnerThatLosesOneOfItsLocksLosesThemAll) {
  EXPECT_EQ(Lock("one", 0), kDone);
  EXPECT_EQ(Lock("one", 20), kDone);
  server.locks_reclaimed = {{20, nfsstat4::NFS4ERR_RECLAIM_CONFLICT}};
  server.Restart();
  Recover();
  EXPECT_EQ(server.locked, std::set<uint64_t>{});
  EXPECT_EQ(Lock("one", 40), Status::kExpired);
  EXPECT_EQ(server.locked, std::set<uint64_t>{});
}

TEST_P(LostLocksTest, LocksOfAFileThatIsNotReclaimedAreReportedToEveryOwner) {
  EXPECT_EQ(Lock("one", 0), kDone);
  EXPECT_EQ(Lock("two", 20), kDone);
  EXPECT_EQ(Lock("three", 40), kDone);
  EXPECT_EQ(Unlock("three", 40), kDone);
  server.open_reclaimed = nfsstat4::NFS4ERR_NO_GRACE;
  server.Restart();
  Recover();
  EXPECT_EQ(server.reclaimed_locks, 0);
  EXPECT_EQ(Lock("one", 0), Status::kExpired);
  EXPECT_EQ(Unlock("two", 20), Status::kExpired);
  EXPECT_EQ(Unlock("three", 40), kDone) << "this owner had no lock";
}

// The server has not restarted. It has revoked the lock (RFC 8881 §8.5), or the seqid count is lost.
TEST_P(LostLocksTest, ALockThatTheServerDoesNotKnowIsReportedToItsOwner) {
  for (const nfsstat4 unknown :
       {nfsstat4::NFS4ERR_BAD_STATEID, nfsstat4::NFS4ERR_ADMIN_REVOKED, nfsstat4::NFS4ERR_EXPIRED}) {
    EXPECT_EQ(Lock("one", 0), kDone);
    server.next_lock = unknown;
    EXPECT_EQ(Lock("one", 20), Status::kExpired);
    EXPECT_EQ(Lock("one", 0), kDone);
    server.next_lock = unknown;
    EXPECT_EQ(Unlock("one", 0), Status::kExpired);
    EXPECT_EQ(Unlock("one", 0), kDone);
  }
}

INSTANTIATE_TEST_SUITE_P(Dialects, LostLocksTest, testing::Values(&kVersion40, &kVersion41));

}  // namespace
}  // namespace penstock::client::v4
