// The rules that decide which state a request may change, and which lease it renews.
#include <functional>

#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

constexpr uint32_t kUser = 1000;
constexpr uint32_t kAnother = 4242;

// In version 4.0 a request with a stateid may come from any host and user. User 1000 of a machine has a file open,
// locked and delegated; root of that machine has set the client ID.
class StateOwnership0Test : public StatefulTest {
 protected:
  // An operation on that state. It succeeds if the operations before it in Changes() have succeeded. A rejected
  // operation has no effect.
  struct Change {
    std::string name;
    std::function<nfsstat4()> run;
  };

  StateOwnership0Test() {
    MakeFile("delegated", "data", 0666);
    server.SetUser(kUser);
    // OPEN_DOWNGRADE must restore the access of an earlier OPEN.
    client.Open("owner", "file", kRead);
    open = client.Open("owner", "file", kBoth);
    LetCall(client);
    delegation = Delegated();
    // From now on the server grants no delegation.
    server.state.Run([&](StateTables& state) { state.clients.SetPath(client.id(), PathState::kUnknown); });
  }

  stateid4 Delegated() {
    client.Open("delegate", "delegated", kRead);
    const auto opened = client.TryOpen("delegate", "delegated", kRead);
    EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
    delegated = client.file;
    return opened.resok4().delegation.read().stateid;
  }
  template <class Results, class Operation>
  std::optional<Results> Ask(const nfs_fh4& on, const Operation& operation) {
    auto reply = Run0(PutFh(on), operation);
    if (reply.status != NFS4_OK) status_ = reply.status;
    if (reply.status != NFS4_OK) return std::nullopt;
    status_ = NFS4_OK;
    return reply.Skip().template Next<Results>();
  }

  nfsstat4 Confirm() {
    if (unconfirmed.seqid == 0) {
      unconfirmed = client.TryOpen("new owner", "file", kRead).resok4().stateid;
    }
    Ask<OPEN_CONFIRM4res>(file, Op(OP_OPEN_CONFIRM, OPEN_CONFIRM4args{unconfirmed, client.seqid("new owner")}));
    return status_;
  }
  nfsstat4 LockAsNew() {
    const auto locked =
        Ask<LOCK4res>(file, Locking(WRITE_LT, 0, 10, NewLocker(client.id(), open, "locker", client.seqid("owner"), 1)));
    if (locked) lock = locked->resok4().lock_stateid, client.Advance("owner");
    return status_;
  }
  nfsstat4 LockAsKnown() {
    const auto locked = Ask<LOCK4res>(file, Locking(WRITE_LT, 20, 10, KnownLocker(lock, 2)));
    if (locked) lock = locked->resok4().lock_stateid;
    return status_;
  }
  nfsstat4 Unlock() {
    const auto unlocked = Ask<LOCKU4res>(file, Unlocking(lock, 0, kWholeFile, 3));
    if (unlocked) lock = unlocked->lock_stateid();
    return status_;
  }
  nfsstat4 Downgrade() {
    const OPEN_DOWNGRADE4args downgrade{open, client.seqid("owner"), kRead, 0};
    const auto downgraded = Ask<OPEN_DOWNGRADE4res>(file, Op(OP_OPEN_DOWNGRADE, downgrade));
    if (downgraded) open = downgraded->resok4().open_stateid, client.Advance("owner");
    return status_;
  }
  nfsstat4 Close() {
    Ask<CLOSE4res>(file, Closing(open, client.seqid("owner")));
    return status_;
  }
  nfsstat4 ReturnDelegation() {
    return Run0(PutFh(delegated), Op(OP_DELEGRETURN, DELEGRETURN4args{delegation})).status;
  }
  // Returns all operations of version 4.0 that change the state of a stateid, in an order in which each can succeed.
  std::vector<Change> Changes() {
    return {{"OPEN_CONFIRM", [this] { return Confirm(); }},
            {"LOCK of a new owner", [this] { return LockAsNew(); }},
            {"LOCK of a known owner", [this] { return LockAsKnown(); }},
            {"LOCKU", [this] { return Unlock(); }},
            {"OPEN_DOWNGRADE", [this] { return Downgrade(); }},
            {"DELEGRETURN", [this] { return ReturnDelegation(); }},
            {"CLOSE", [this] { return Close(); }}};
  }
  // Expects that each change fails for the caller that `become_stranger` sets, and succeeds for the caller that
  // `become_owner` sets.
  void ExpectRefusedTo(const std::function<void()>& become_stranger, const std::function<void()>& become_owner) {
    for (const Change& change : Changes()) {
      SCOPED_TRACE(change.name);
      if (change.name == "OPEN_CONFIRM") {
        unconfirmed = client.TryOpen("new owner", "file", kRead).resok4().stateid;
      }
      become_stranger();
      EXPECT_EQ(change.run(), NFS4ERR_BAD_STATEID);
      become_owner();
      EXPECT_EQ(change.run(), NFS4_OK);
    }
  }
  void CallFrom(std::string_view address) { server.peer.address = {asio::ip::make_address(std::string(address)), 700}; }
  TimePoint Renewed() {
    return server.state.Run([&](StateTables& state) { return state.clients.Find(client.id())->renewed; });
  }

  const nfs_fh4 file = MakeFile("file", "data", 0666);
  Client0 client{server, "of 4.0"};
  stateid4 open{}, lock{}, unconfirmed{}, delegation{};
  nfs_fh4 delegated;
  nfsstat4 status_ = NFS4_OK;
};

TEST_F(StateOwnership0Test, OtherUsersOfTheMachineCannotChangeState) {
  ExpectRefusedTo([this] { server.SetUser(kAnother); }, [this] { server.SetUser(kUser); });
}

// Under AUTH_SYS, user 1000 and root exist on every machine, so the server must compare the machines.
TEST_F(StateOwnership0Test, OtherMachinesCannotChangeState) {
  ExpectRefusedTo([this] { CallFrom("192.0.2.99"); }, [this] { CallFrom("192.0.2.1"); });
}

TEST_F(StateOwnership0Test, RootOfAnotherMachineCannotChangeState) {
  const auto stranger = [this] {
    CallFrom("192.0.2.99");
    server.SetUser(0);
  };
  const auto owner = [this] {
    CallFrom("192.0.2.1");
    server.SetUser(kUser);
  };
  ExpectRefusedTo(stranger, owner);
}

// Linux uses the machine's credential after a user's credential has expired.
TEST_F(StateOwnership0Test, TheMachineMayChangeItsUsersState) {
  const stateid4 waiting = client.TryOpen("new owner", "file", kRead).resok4().stateid;
  unconfirmed = waiting;
  server.SetUser(0);
  for (const Change& change : Changes()) EXPECT_EQ(change.run(), NFS4_OK) << change.name;
}

TEST_F(StateOwnership0Test, AcceptsTheMappedFormOfTheAddress) {
  CallFrom("::ffff:192.0.2.1");
  EXPECT_EQ(Close(), NFS4_OK);
}

TEST_F(StateOwnership0Test, OtherMachinesCannotUseAClientId) {
  const auto ask = [this](const auto& operation) { return Run0(PutFh(file), operation).status; };
  const lock_owner4 locker{client.id().value(), AsBytes(std::string_view("locker"))};
  CallFrom("192.0.2.99");
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).status(), NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(ask(TestingLock(client.id(), "locker", 0, 10)), NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(ask(Op(OP_RELEASE_LOCKOWNER, RELEASE_LOCKOWNER4args{locker})), NFS4ERR_STALE_CLIENTID);
  EXPECT_EQ(ask(Op(OP_RENEW, RENEW4args{client.id().value()})), NFS4ERR_STALE_CLIENTID);
  CallFrom("192.0.2.1");
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).status(), NFS4_OK);
}

TEST_F(StateOwnership0Test, MachineWithANewAddressKeepsItsStateAfterSetclientid) {
  CallFrom("192.0.2.50");
  EXPECT_EQ(Close(), NFS4ERR_BAD_STATEID);
  server.SetUser(0);
  EXPECT_EQ(Client0(server, "of 4.0").id(), client.id());
  server.SetUser(kUser);
  EXPECT_EQ(Close(), NFS4_OK);
}

// RFC 7530 §16.28.5
TEST_F(StateOwnership0Test, RenewRequiresTheMachineOrAnOpener) {
  const auto renew = [this] { return Run0(Op(OP_RENEW, RENEW4args{client.id().value()})).status; };
  EXPECT_EQ(renew(), NFS4_OK);
  server.SetUser(kAnother);
  EXPECT_EQ(renew(), NFS4ERR_ACCESS);
  server.SetUser(0);
  EXPECT_EQ(renew(), NFS4_OK);
}

TEST_F(StateOwnership0Test, RejectsStateOfASessionsClientWithoutASession) {
  server.SetUser(0);
  const stateid4 others = OpenBy(Client(), "file", kBoth);
  EXPECT_EQ(Run0(PutFh(file), Closing(others, 1)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run0(PutFh(file), Reading(others)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run0(PutFh(file), Writing(others)).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(file), Closing(others)).status, NFS4_OK);
}

// RFC 7530 §9.5
TEST_F(StateOwnership0Test, EveryOperationWithAStateidOrClientIdRenewsTheLease) {
  std::vector<Change> all = Changes();
  const auto on_file = [this](std::string name, auto make) {
    return Change{std::move(name), [this, make] { return Run0(PutFh(file), make()).status; }};
  };
  const auto named = [this] { return client.id().value(); };
  const std::vector<Change> uses{
      on_file("READ", [this] { return Reading(open); }),
      on_file("WRITE", [this] { return Writing(open); }),
      on_file("SETATTR of the size", [this] { return Op(OP_SETATTR, SETATTR4args{open, Size(3)}); }),
      on_file("SETATTR of the mode", [this] { return Op(OP_SETATTR, SETATTR4args{open, Mode(0666)}); }),
      on_file("LOCKT", [this] { return TestingLock(client.id(), "locker", 0, 10); }),
      on_file("RENEW", [named] { return Op(OP_RENEW, RENEW4args{named()}); }),
      {"OPEN", [this] { return client.TryOpen("owner of one more", "delegated", kRead).status(); }},
  };
  // Only the file's owner and root may set the mode.
  server.SetUser(0);
  all.insert(all.begin(), uses.begin(), uses.end());
  unconfirmed = client.TryOpen("new owner", "file", kRead).resok4().stateid;
  const auto release = [named] {
    return Op(OP_RELEASE_LOCKOWNER, RELEASE_LOCKOWNER4args{{named(), AsBytes(std::string_view("locker"))}});
  };
  all.push_back(on_file("RELEASE_LOCKOWNER", release));
  for (const Change& each : all) {
    Pass(std::chrono::seconds(1));
    ASSERT_LT(Renewed(), server.clock.now);
    EXPECT_EQ(each.run(), NFS4_OK) << each.name;
    EXPECT_EQ(Renewed(), server.clock.now) << each.name;
  }
  // The server does not support DELEGPURGE, but the request names the client and so renews its lease.
  Pass(std::chrono::seconds(1));
  EXPECT_EQ(Run0(Op(OP_DELEGPURGE, DELEGPURGE4args{named()})).status, NFS4ERR_NOTSUPP);
  EXPECT_EQ(Renewed(), server.clock.now);
}

TEST_F(StateOwnership0Test, SpecialStateidsRenewNoLease) {
  server.SetUser(0);
  Pass(std::chrono::seconds(1));
  const TimePoint before = Renewed();
  EXPECT_EQ(Run0(PutFh(file), Reading(kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(Run0(PutFh(file), Writing(kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(Renewed(), before);
}

// RPCSEC_GSS authenticates the principal of a request from any address.
TEST(StateOwnershipByGss, AuthenticatedPrincipalsMayChangeTheirStateFromAnyAddress) {
  Nfs4Server server;
  fs::memory::FileSystem& tree =
      server.Export("/", {.squash = Squash::kNone, .security = {SecurityFlavor::kSys, SecurityFlavor::kKrb5}});
  fs::CreateHow for_all;
  for_all.attributes.mode = 0666;
  const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  ASSERT_TRUE(Now(tree.Create(root, tree.Root(), "file", for_all)).result);
  const TestInitiator alice("alice@EXAMPLE.ORG"), mallory("mallory@EXAMPLE.ORG");
  Client0 client(server, "of 4.0");
  const auto close = [&](const stateid4& open) {
    return server.Run(0, PutFh(client.file), Closing(open, client.seqid("of alice"))).status;
  };
  server.SetInitiator(alice, rpc::GssService::kNone);
  const stateid4 hers = client.Open("of alice", "file", kRead);
  server.peer.address = {asio::ip::make_address("192.0.2.99"), 700};
  server.SetInitiator(mallory, rpc::GssService::kNone);
  EXPECT_EQ(close(hers), NFS4ERR_BAD_STATEID);
  server.SetInitiator(alice, rpc::GssService::kNone);
  EXPECT_EQ(close(hers), NFS4_OK);
}

// A session identifies the client. Only the principal that made a state, or the machine, may end it (RFC 8881 §18.2.3,
// §18.6.3, §18.12.3). Other operations are open to all users of the machine, because stateids are not bound to
// principals.
class StateOwnershipTest : public StatefulTest {
 protected:
  StateOwnershipTest() {
    LetCall(Client());
    server.SetUser(kUser);
  }
  const nfs_fh4 file = MakeFile("file", "data", 0666);
};

TEST_F(StateOwnershipTest, OtherUsersOfTheMachineCannotEndState) {
  const auto opened = TryOpen(Client(), "file", kBoth | OPEN4_SHARE_ACCESS_WANT_WRITE_DELEG);
  const stateid4 open = opened.resok4().stateid, delegation = opened.resok4().delegation.write().stateid;
  auto locked = Run(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), open, "locker")));
  stateid4 lock = locked.Skip().Next<LOCK4res>().resok4().lock_stateid;
  lock.seqid = 0;  // seqid 0 means the latest version of the stateid
  const auto status_of = [&](const auto& operation) { return Run(PutFh(file), operation).status; };
  const auto give_back = Op(OP_DELEGRETURN, DELEGRETURN4args{delegation});
  server.SetUser(kAnother);
  EXPECT_EQ(status_of(Unlocking(lock, 0, kWholeFile)), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(status_of(give_back), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(status_of(Closing(open)), NFS4ERR_WRONG_CRED);
  EXPECT_EQ(status_of(Locking(WRITE_LT, 10, 10, KnownLocker(lock))), NFS4_OK);
  EXPECT_EQ(status_of(Reading(delegation)), NFS4_OK);
  server.SetUser(kUser);
  EXPECT_EQ(status_of(Unlocking(lock, 0, kWholeFile)), NFS4_OK);
  EXPECT_EQ(status_of(give_back), NFS4_OK);
  server.SetUser(0);  // the machine's principal
  EXPECT_EQ(status_of(Closing(open)), NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
