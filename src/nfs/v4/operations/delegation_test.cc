// The delegations that the server grants, and the requests of their holders. delegation_conflict_test.cc tests the
// requests that conflict with them.
#include "nfs/v4/operations/delegation_test.h"

#include <chrono>
#include <vector>

#include "nfs/v4/dialect/test_dialects.h"
#include "nfs/v4/operations/io_state.h"

namespace penstock::nfs::v4 {
namespace {

TEST_F(DelegationTest, GrantsADelegationToTheOnlyOpener) {
  EXPECT_EQ(Given(Client(), kBoth).delegation_type(), OPEN_DELEGATE_WRITE);
}

TEST_F(DelegationTest, GrantsNoneToAClientThatWantsNone) {
  const auto none = Given(Client(), kRead | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  ASSERT_EQ(none.delegation_type(), OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(none.od_whynone().ond_why(), WND4_NOT_WANTED);
}

TEST_F(DelegationTest, GrantsNoneToAClientWithoutACallbackPath) {
  SessionClient mute(server, "mute");
  const auto none = Given(mute, kRead | kWantRead);
  ASSERT_EQ(none.delegation_type(), OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(none.od_whynone().ond_why(), WND4_RESOURCE);
}

// Another server of the cluster is lost while this one calls the file system. Its clients reclaim.
TEST_F(DelegationTest, GrantsNothingIfAGracePeriodBeginsDuringTheOpen) {
  const auto hold = [&] { server.state.Run([](StateTables& state) { state.clients.grace().Hold(); }); };
  const auto release = [&] { server.state.Run([](StateTables& state) { state.clients.grace().Release(); }); };
  server.faults->OnPin(hold);
  EXPECT_EQ(TryOpen(Client(), "file", kRead | kWantRead).status(), NFS4ERR_GRACE);
  release();
  // Nobody can reclaim a new file, and the client could not make it again.
  const auto made = TryOpen(Client(), "new", kBoth | kWantWrite, 0, Creating(GUARDED4));
  ASSERT_EQ(made.status(), NFS4_OK);
  EXPECT_FALSE(made.resok4().delegation.is_write());
  release();
  server.faults->OnPin({});
  EXPECT_EQ(Given(Client(), kRead | kWantRead).delegation_type(), OPEN_DELEGATE_READ);
}

// The server could not tell the holder that a client of another server changes the file.
TEST_F(DelegationTest, GrantsNoneOnAFileSystemThatOtherServersHaveAsWell) {
  server.faults->ChangedProperties().has_other_servers = true;
  for (const uint32_t access : {kRead | kWantRead, kBoth | kWantWrite, kBoth}) {
    const auto none = Given(Client(), access, "owner");
    EXPECT_TRUE(!none.is_read() && !none.is_write()) << access;
  }
  auto reply = Run(PutFh(file), Wanting(kWantRead));
  EXPECT_EQ(reply.Skip().Next<WANT_DELEGATION4res>().wdr_resok4().delegation_type(), OPEN_DELEGATE_NONE_EXT);
}

class NoDelegationTest : public StatefulTest {
 protected:
  NoDelegationTest() : StatefulTest(Without()) {}

 private:
  static Settings Without() {
    Settings settings;
    settings.delegations = false;
    return settings;
  }
};

TEST_F(NoDelegationTest, GrantsNoneIfTheOperatorDisablesDelegations) {
  MakeFile("file");
  LetCall(Client());
  const auto opened = TryOpen(Client(), "file", kRead | kWantRead);
  EXPECT_EQ(opened.resok4().delegation.od_whynone().ond_why(), WND4_RESOURCE);
}

// RFC 8881 §10.2.1: a client may reclaim a delegation from before the restart, even if the operator has disabled
// delegations since.
TEST_F(NoDelegationTest, ReclaimedDelegationMustBeReturnedAtOnce) {
  const nfs_fh4 file = MakeFile("file");
  Client0 client(server, "of 4.0");
  LetCall(client);
  server.state.Run([&](StateTables& state) {
    state.clients.grace() =
        Grace({{.owner = OwnerKey(DialectOf(0), "of 4.0"), .principal = {rpc::AuthFlavor::AUTH_SYS, 0}}},
              server.clock.now + std::chrono::seconds(90));
  });
  const auto reclaim = Opening(client.id(), 1, "owner", kRead, 0, open_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_READ));
  const auto opened = Run0(PutFh(file), reclaim).Skip().Next<OPEN4res>();
  ASSERT_EQ(opened.status(), NFS4_OK);
  ASSERT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_TRUE(opened.resok4().delegation.read().recall);
}

TEST_F(DelegationTest, GrantsNoneWhileAnotherClientWrites) {
  Given(Other(), kWrite | OPEN4_SHARE_ACCESS_WANT_NO_DELEG);
  EXPECT_EQ(Given(Client(), kRead | kWantRead).od_whynone().ond_why(), WND4_CONTENTION);
}

// Between the check and the change, an operation waits for the file system. The server may execute another client's
// OPEN meanwhile.
TEST_F(DelegationTest, GrantsNoneWhileTheFileChanges) {
  const NamedFile name = NameOf(file);
  const Services services = server.GetServices();
  FileUses uses;
  const Asker asker{services, nullptr, {DialectOf(2), Client().client()}, uses};
  EXPECT_EQ(Now(Recall(asker, name, std::nullopt, Delegations::Use::kChange)), NFS4_OK);
  EXPECT_EQ(Now(CheckIo(asker, kAnonymous, name, true)), NFS4_OK);
  EXPECT_EQ(Given(Other(), kRead | kWantRead).od_whynone().ond_why(), WND4_CONTENTION);
  uses.End();
  EXPECT_EQ(Given(Other(), kRead | kWantRead).delegation_type(), OPEN_DELEGATE_READ);
}

TEST_F(DelegationTest, GrantsAgainAfterTheChange) {
  EXPECT_EQ(Run(PutFh(file), Op(OP_SETATTR, SETATTR4args{kAnonymous, Mode(0644)})).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), Writing(kAnonymous)).status, NFS4_OK);
  EXPECT_EQ(Run(PutFh(file), SaveFh(), PutRoot(), Op(OP_LINK, LINK4args{"link"})).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), SaveFh(), Op(OP_RENAME, RENAME4args{"link", "name"})).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), Op(OP_REMOVE, REMOVE4args{"name"})).status, NFS4_OK);
  EXPECT_EQ(Given(Other(), kRead | kWantRead).delegation_type(), OPEN_DELEGATE_READ);
}

TEST_F(DelegationTest, GrantsADelegationToAnOpenThatTruncates) {
  const auto opened = TryOpen(Client(), "file", kBoth | kWantWrite, 0, Creating(UNCHECKED4, Size(0)));
  ASSERT_EQ(opened.status(), NFS4_OK);
  EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_WRITE);
}

TEST_F(DelegationTest, GrantsADelegationWhileTheFileIsRead) {
  FileUses uses;
  const Services services = server.GetServices();
  const Asker asker{services, nullptr, {DialectOf(2), Client().client()}, uses};
  EXPECT_EQ(Now(CheckIo(asker, kAnonymous, NameOf(file), false)), NFS4_OK);
  EXPECT_TRUE(uses.empty());
}

TEST_F(DelegationTest, HolderOpensUnderItsDelegation) {
  const stateid4 id = ReadDelegation();
  EXPECT_EQ(TryOpen(Other(), "file", kWrite).status(), NFS4ERR_DELAY);
  const auto claim = [&](uint32_t access, const stateid4& delegation) {
    return Opening(Client().client(), 0, "another owner", access, 0,
                   open_claim4(CLAIM_DELEGATE_CUR, open_claim_delegate_cur4{delegation, component4("file")}));
  };
  EXPECT_EQ(Run(PutRoot(), claim(kRead, id)).status, NFS4_OK);
  EXPECT_EQ(Run(PutRoot(), claim(kWrite, id)).status, NFS4ERR_OPENMODE);
  EXPECT_EQ(Run(PutRoot(), claim(kRead, kAnonymous)).status, NFS4ERR_BAD_STATEID);
  const auto by_handle = Opening(Client().client(), 0, "third owner", kRead, 0, open_claim4(CLAIM_DELEG_CUR_FH, id));
  EXPECT_EQ(Run(PutFh(file), by_handle).status, NFS4_OK);
  EXPECT_EQ(Return(id), NFS4_OK);
}

// The delegation is recalled meanwhile: the holder must not lose what it has opened and locked.
TEST_F(DelegationTest, HolderOpensAndLocksUnderItsDelegationWhileTheClusterHoldsTheGracePeriod) {
  const stateid4 id = WriteDelegation();
  server.state.Run([](StateTables& state) { state.clients.grace().Hold(); });
  auto reply =
      Run(PutFh(file), Opening(Client().client(), 0, "another owner", kBoth, 0, open_claim4(CLAIM_DELEG_CUR_FH, id)));
  const auto opened = reply.Skip().Next<OPEN4res>();
  ASSERT_EQ(opened.status(), NFS4_OK);
  const auto lock = Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), opened.resok4().stateid, "locker"));
  EXPECT_EQ(Run(PutFh(file), lock).status, NFS4_OK);
  EXPECT_EQ(Return(id), NFS4_OK);
  const auto later = Locking(WRITE_LT, 20, 10, NewLocker(Client().client(), opened.resok4().stateid, "other"));
  EXPECT_EQ(Run(PutFh(file), later).status, NFS4ERR_GRACE);
}

TEST_F(DelegationTest, DelegreturnRequiresTheHolderAndTheFile) {
  const stateid4 id = ReadDelegation();
  const auto give_back = Op(OP_DELEGRETURN, DELEGRETURN4args{id});
  EXPECT_EQ(Other().Run(PutFh(file), give_back).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutRoot(), give_back).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Return(OpenBy(Client(), "file", kRead)), NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Return(id), NFS4_OK);
  EXPECT_EQ(Return(id), NFS4ERR_BAD_STATEID);
}

TEST_F(DelegationTest, RejectsFreeStateidOfAHeldDelegation) {
  EXPECT_EQ(Run(Op(OP_FREE_STATEID, FREE_STATEID4args{ReadDelegation()})).status, NFS4ERR_LOCKS_HELD);
}

// RFC 8881 §18.49
TEST_F(DelegationTest, WantDelegationGrantsADelegationWithoutAnOpen) {
  auto reply = Run(PutFh(file), Wanting(kWantRead));
  EXPECT_EQ(reply.Skip().Next<WANT_DELEGATION4res>().wdr_resok4().delegation_type(), OPEN_DELEGATE_READ);
  EXPECT_EQ(Run(PutFh(file), Wanting(0)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Wanting(OPEN4_SHARE_ACCESS_WANT_NO_DELEG)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Run(PutFh(file), Wanting(kWantRead, deleg_claim4(CLAIM_PREVIOUS, OPEN_DELEGATE_READ))).status,
            NFS4ERR_NO_GRACE);
  EXPECT_EQ(Run(PutFh(file), Wanting(kWantRead, deleg_claim4(CLAIM_DELEG_PREV_FH))).status, NFS4ERR_NOTSUPP);
}

// RFC 8881 §8.4.2.1.1: as in OPEN, a client may reclaim a delegation only if the server could grant it.
class ReclaimedDelegationTest : public DelegationTest {
 protected:
  ReclaimedDelegationTest() {
    // Imitate a server that has just restarted and knows these clients from its last run.
    server.state.Run([&](StateTables& state) {
      std::vector<RecoveryRecord> known;
      for (const SessionClient* each : {&Client(), &Other()}) {
        auto& record = const_cast<v4::Client&>(*state.clients.Find(each->client()));
        record.reclaim_complete = false;
        known.push_back({.owner = record.key(), .principal = record.principal});
      }
      state.clients.grace() = Grace(known, server.clock.now + std::chrono::seconds(90));
    });
  }
  nfsstat4 Reclaim(SessionClient& client, const nfs_fh4& what, open_delegation_type4 type) {
    const uint32_t want = type == OPEN_DELEGATE_WRITE ? kWantWrite : kWantRead;
    return client.Run(PutFh(what), Wanting(want, deleg_claim4(CLAIM_PREVIOUS, type))).status;
  }
};

TEST_F(ReclaimedDelegationTest, ReclaimsDoNotConflictWithEachOther) {
  EXPECT_EQ(Reclaim(Client(), file, OPEN_DELEGATE_READ), NFS4_OK);
  EXPECT_EQ(Reclaim(Other(), file, OPEN_DELEGATE_WRITE), NFS4ERR_RECLAIM_CONFLICT);
  EXPECT_EQ(Reclaim(Other(), file, OPEN_DELEGATE_READ), NFS4_OK);
  const nfs_fh4 second = MakeFile("second");
  EXPECT_EQ(Reclaim(Client(), second, OPEN_DELEGATE_WRITE), NFS4_OK);
  EXPECT_EQ(Reclaim(Other(), second, OPEN_DELEGATE_WRITE), NFS4ERR_RECLAIM_CONFLICT);
  EXPECT_EQ(Reclaim(Other(), second, OPEN_DELEGATE_READ), NFS4ERR_RECLAIM_CONFLICT);
}

TEST_F(ReclaimedDelegationTest, RequiresPermissionToReclaim) {
  const nfs_fh4 secret = MakeFile("secret", "data", 0600), readable = MakeFile("readable", "data", 0644);
  EXPECT_EQ(Reclaim(Client(), MakeDirectory("directory"), OPEN_DELEGATE_READ), NFS4ERR_WRONG_TYPE);
  server.SetUser(1000);
  EXPECT_EQ(Reclaim(Client(), secret, OPEN_DELEGATE_READ), NFS4ERR_ACCESS);
  EXPECT_EQ(Reclaim(Client(), readable, OPEN_DELEGATE_WRITE), NFS4ERR_ACCESS);
  EXPECT_EQ(Reclaim(Client(), readable, OPEN_DELEGATE_READ), NFS4_OK);
}

TEST_F(DelegationTest, GrantsNoneForNonFiles) {
  const auto why = [&](const nfs_fh4& object, uint32_t want) {
    auto reply = Run(PutFh(object), Wanting(want));
    return reply.Skip().Next<WANT_DELEGATION4res>().wdr_resok4().od_whynone().ond_why();
  };
  EXPECT_EQ(why(MakeDirectory("directory"), kWantRead), WND4_IS_DIR);
  EXPECT_EQ(why(MakeFifo("fifo"), kWantRead), WND4_NOT_SUPP_FTYPE);
  EXPECT_EQ(why(MakeFifo("pipe"), kWantWrite), WND4_WRITE_DELEG_NOT_SUPP_FTYPE);
}

TEST_F(DelegationTest, GrantsNoneWithoutReadPermission) {
  const nfs_fh4 secret = MakeFile("secret", "data", 0600);
  server.SetUser(1000);
  EXPECT_EQ(Run(PutFh(secret), Wanting(kWantRead)).status, NFS4ERR_ACCESS);
}

TEST_F(DelegationTest, GrantsNoWriteDelegationWithoutWritePermission) {
  file = MakeFile("readable", "data", 0644);
  server.SetUser(1000);
  const auto wanted = [&](uint32_t want) {
    auto reply = Run(PutFh(file), Wanting(want));
    return reply.Skip().Next<WANT_DELEGATION4res>().wdr_resok4();
  };
  ASSERT_EQ(wanted(kWantWrite).delegation_type(), OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(wanted(kWantWrite).od_whynone().ond_why(), WND4_RESOURCE);
  const auto opened = TryOpen(Client(), "readable", kRead | kWantWrite).resok4();
  ASSERT_EQ(opened.delegation.delegation_type(), OPEN_DELEGATE_NONE_EXT);
  EXPECT_EQ(opened.delegation.od_whynone().ond_why(), WND4_RESOURCE);
  EXPECT_EQ(wanted(OPEN4_SHARE_ACCESS_WANT_ANY_DELEG).delegation_type(), OPEN_DELEGATE_READ);
}

TEST_F(DelegationTest, GrantsAWriteDelegationToAReaderWithWritePermission) {
  server.SetUser(1000);
  EXPECT_EQ(Given(Client(), kRead | kWantWrite).delegation_type(), OPEN_DELEGATE_WRITE);
}

TEST_F(DelegationTest, DoesNotSupportDirectoryDelegations) {
  EXPECT_EQ(Run(PutRoot(), Op(OP_GET_DIR_DELEGATION, GET_DIR_DELEGATION4args{})).status, NFS4ERR_NOTSUPP);
}

// --- Version 4.0

TEST_F(DelegationTest, GrantsNoneBeforeTheOpenIsConfirmed) {
  Client0 client(server, "of 4.0");
  LetCall(client);
  EXPECT_EQ(client.TryOpen("owner", "file", kRead).resok4().delegation.delegation_type(), OPEN_DELEGATE_NONE);
  client.Open("another", "file", kRead);
  const auto opened = client.TryOpen("another", "file", kRead);
  EXPECT_EQ(opened.resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
}

// RFC 7530 §16.28.5
TEST_F(DelegationTest, RenewReportsALostCallbackPathAndRenewsTheLease) {
  Client0 client(server, "of 4.0");
  LetCall(client);
  client.Open("owner", "file", kRead);
  ASSERT_EQ(client.TryOpen("owner", "file", kRead).resok4().delegation.delegation_type(), OPEN_DELEGATE_READ);
  server.state.Run([&](StateTables& state) { state.clients.SetPath(client.id(), PathState::kDown); });
  for (int i = 0; i < 3; ++i) {
    Pass(server.settings.lease);
    EXPECT_EQ(Run0(Op(OP_RENEW, RENEW4args{client.id().value()})).status, NFS4ERR_CB_PATH_DOWN);
    EXPECT_FALSE(server.state.Run([&](StateTables& state) {
      return state.clients.IsExpired(client.id(), server.clock.now + server.settings.lease);
    }));
  }
}

}  // namespace
}  // namespace penstock::nfs::v4
