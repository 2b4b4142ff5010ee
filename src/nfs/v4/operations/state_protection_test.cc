// SP4_MACH_CRED as COMPOUNDs (RFC 8881 §2.10.8.3). state/clients/state_protection_test.cc tests the cases of the
// tables.
#include "base/address.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

using enum SecurityFlavor;

const TestInitiator& Machine() {
  static const TestInitiator machine("nfs/client.example.org@EXAMPLE.ORG");
  return machine;
}
const TestInitiator& Alice() {
  static const TestInitiator alice("alice@EXAMPLE.ORG", 1000);
  return alice;
}

state_protect4_a Wishes(const OperationSet& enforce, const OperationSet& allow) {
  return state_protect4_a(
      SP4_MACH_CRED, state_protect_ops4{.spo_must_enforce = enforce.ToBitmap(), .spo_must_allow = allow.ToBitmap()});
}
state_protect4_a LinuxWishes() {
  return Wishes({OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION, OP_DESTROY_CLIENTID},
                {OP_CLOSE, OP_OPEN_DOWNGRADE, OP_LOCKU, OP_DELEGRETURN, OP_LAYOUTRETURN, OP_SECINFO, OP_SECINFO_NO_NAME,
                 OP_TEST_STATEID, OP_FREE_STATEID, OP_WRITE, OP_COMMIT});
}

// The export "/" accepts only privacy (krb5p). Users call with privacy, their machine with integrity.
class StateProtectionTest : public testing::Test {
 protected:
  StateProtectionTest() : tree(server.Export("/", {.squash = Squash::kNone, .security = {kKrb5p}})) {
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    fs::CreateHow how;
    how.attributes.mode = 0600;
    how.attributes.uid = 1000;
    const auto made = Now(tree.Create(context, tree.Root(), "file", how));
    file = ToFileHandle({server.exports.table().Resolve("/").found->id(), made.result->handle});
    AsMachine();
  }
  void AsMachine(rpc::GssService service = rpc::GssService::kIntegrity) { server.SetInitiator(Machine(), service); }
  void AsAlice() { server.SetInitiator(Alice(), rpc::GssService::kPrivacy); }

  EXCHANGE_ID4res Exchange(const state_protect4_a& protection, std::string_view owner = "owner", uint32_t flags = 0) {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes(owner)}},
                               .eia_flags = flags,
                               .eia_state_protect = protection,
                               .eia_client_impl_id = {}};
    return server.Run(1, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
  }
  SessionClient& Client() {
    if (!client_) client_.emplace(server, "client", 1, 0, LinuxWishes());
    return *client_;
  }
  stateid4 OpenByAlice(uint32_t access = kBoth) {
    Client();
    AsAlice();
    auto reply = Client().Run(PutRoot(), Opening(Client().client(), 0, "alice", access, 0, Named("file")));
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<OPEN4res>().resok4().stateid;
  }

  Nfs4Server server;
  fs::memory::FileSystem& tree;
  nfs_fh4 file;

 private:
  std::optional<SessionClient> client_;
};

// RFC 8881 §18.35.3
TEST_F(StateProtectionTest, RequiresIntegrityOrPrivacy) {
  EXPECT_EQ(Exchange(LinuxWishes()).eir_status(), NFS4_OK);
  AsMachine(rpc::GssService::kPrivacy);
  EXPECT_EQ(Exchange(LinuxWishes()).eir_status(), NFS4_OK);
  AsMachine(rpc::GssService::kNone);
  EXPECT_EQ(Exchange(LinuxWishes()).eir_status(), NFS4ERR_INVAL);
  server.SetUser(0);
  EXPECT_EQ(Exchange(LinuxWishes()).eir_status(), NFS4ERR_INVAL);
  server.SetNoIdentity();
  EXPECT_EQ(Exchange(LinuxWishes()).eir_status(), NFS4ERR_INVAL);
}

TEST_F(StateProtectionTest, ReturnsTheEnforcedAndAllowedOperations) {
  const auto exchanged = Exchange(LinuxWishes());
  const state_protect4_r& answer = exchanged.eir_resok4().eir_state_protect;
  ASSERT_EQ(answer.spr_how(), SP4_MACH_CRED);
  const OperationSet enforced(answer.spr_mach_ops().spo_must_enforce);
  EXPECT_EQ(enforced, (OperationSet{OP_BIND_CONN_TO_SESSION, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION,
                                    OP_DESTROY_CLIENTID}));
  const OperationSet allowed(answer.spr_mach_ops().spo_must_allow);
  EXPECT_EQ(allowed, (OperationSet{OP_CLOSE, OP_OPEN_DOWNGRADE, OP_LOCKU, OP_DELEGRETURN, OP_SECINFO,
                                   OP_SECINFO_NO_NAME, OP_TEST_STATEID, OP_FREE_STATEID}));
  // RFC 8881 §18.35.3: the server does not bind stateids to principals, even if the client requests it.
  const auto bound = Exchange(LinuxWishes(), "other", EXCHGID4_FLAG_BIND_PRINC_STATEID);
  EXPECT_EQ(bound.eir_resok4().eir_flags, EXCHGID4_FLAG_USE_NON_PNFS);
}

TEST_F(StateProtectionTest, ReturnsTheProtectionOfAConfirmedClient) {
  Client();
  const auto again = Exchange(state_protect4_a(SP4_NONE), "client");
  ASSERT_EQ(again.eir_status(), NFS4_OK);
  EXPECT_EQ(again.eir_resok4().eir_state_protect.spr_how(), SP4_MACH_CRED);
  EXPECT_NE(again.eir_resok4().eir_flags & EXCHGID4_FLAG_CONFIRMED_R, 0u);
}

TEST_F(StateProtectionTest, OnlyTheMachineDestroysSessions) {
  const auto destroy = Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{Client().session()});
  AsAlice();
  EXPECT_EQ(server.Run(1, destroy).status, NFS4ERR_WRONG_CRED);
  EXPECT_EQ(Client().Run(destroy).status, NFS4ERR_WRONG_CRED);
  AsMachine(rpc::GssService::kNone);
  EXPECT_EQ(server.Run(1, destroy).status, NFS4ERR_WRONG_CRED);
  AsMachine();
  EXPECT_EQ(server.Run(1, destroy).status, NFS4_OK);
}

TEST_F(StateProtectionTest, OnlyTheMachineDestroysTheClientId) {
  const auto destroy = Op(OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args{Client().client().value()});
  AsAlice();
  EXPECT_EQ(server.Run(1, destroy).status, NFS4ERR_WRONG_CRED);
  AsMachine();
  EXPECT_EQ(server.Run(1, destroy).status, NFS4ERR_CLIENTID_BUSY);
}

// RFC 8881 §18.34.3
TEST_F(StateProtectionTest, OnlyTheMachineBindsConnections) {
  const BIND_CONN_TO_SESSION4args both{Client().session(), CDFC4_FORE_OR_BOTH, false};
  server.peer.connection = 2;
  EXPECT_EQ(server.Run(1, Client().Sequence()).status, NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  AsAlice();
  EXPECT_EQ(server.Run(1, Op(OP_BIND_CONN_TO_SESSION, both)).status, NFS4ERR_WRONG_CRED);
  AsMachine();
  EXPECT_EQ(server.Run(1, Op(OP_BIND_CONN_TO_SESSION, both)).status, NFS4_OK);
}

TEST_F(StateProtectionTest, EnforcesTheOperationsThatTheClientLists) {
  const BACKCHANNEL_CTL4args control{.bca_cb_program = 1, .bca_sec_parms = {}};
  Client();
  AsAlice();
  EXPECT_EQ(Client().Run(Op(OP_BACKCHANNEL_CTL, control)).status, NFS4_OK);
  AsMachine();
  SessionClient strict(server, "strict", 1, 0, Wishes({OP_BACKCHANNEL_CTL, OP_DELEGPURGE}, {}));
  AsAlice();
  EXPECT_EQ(strict.Run(Op(OP_BACKCHANNEL_CTL, control)).status, NFS4ERR_WRONG_CRED);
  EXPECT_EQ(strict.Run(Op(OP_DELEGPURGE, DELEGPURGE4args{})).status, NFS4ERR_WRONG_CRED);
  AsMachine();
  EXPECT_EQ(strict.Run(Op(OP_BACKCHANNEL_CTL, control)).status, NFS4_OK);
  EXPECT_EQ(strict.Run(Op(OP_DELEGPURGE, DELEGPURGE4args{})).status, NFS4ERR_NOTSUPP);
}

// ---- operations that the machine may use ----

// The export does not accept the machine's flavor, and the file belongs to another user.
TEST_F(StateProtectionTest, MachineReturnsTheStateOfItsUsers) {
  OpenByAlice(kRead);
  const stateid4 open = OpenByAlice(kBoth);
  const auto lock = [&] {
    auto reply =
        Client().Run(PutFh(file), Locking(WRITE_LT, 0, 10, NewLocker(Client().client(), open, "alice's lock")));
    return reply.Skip().Next<LOCK4res>().resok4().lock_stateid;
  }();
  AsMachine();
  EXPECT_EQ(Client().Run(PutFh(file), Unlocking(lock, 0, 10)).status, NFS4_OK);
  const OPEN_DOWNGRADE4args less{open, 0, kRead, 0};
  auto downgraded = Client().Run(PutFh(file), Op(OP_OPEN_DOWNGRADE, less));
  EXPECT_EQ(downgraded.status, NFS4_OK);
  const stateid4 now = downgraded.Skip().Next<OPEN_DOWNGRADE4res>().resok4().open_stateid;
  TEST_STATEID4args asked;
  asked.ts_stateids = {now};
  EXPECT_EQ(Client().Run(Op(OP_TEST_STATEID, asked)).status, NFS4_OK);
  EXPECT_EQ(Client().Run(PutFh(file), Closing(now)).status, NFS4_OK);
}

// Linux 6.1 sends GETATTR before CLOSE.
TEST_F(StateProtectionTest, MachineReadsAttributesBeforeItReturnsADelegation) {
  const stateid4 open = OpenByAlice();
  AsMachine();
  EXPECT_EQ(Client().Run(PutFh(file), GetAttr({FATTR4_CHANGE}), Closing(open)).status, NFS4_OK);
  EXPECT_EQ(Client().Run(PutFh(file), GetAttr({FATTR4_CHANGE})).status, NFS4ERR_WRONGSEC);
}

TEST_F(StateProtectionTest, MachineReadsNoAttributesOfAFileWithoutStateToReturn) {
  const stateid4 open = OpenByAlice();
  AsMachine();
  const nfs_fh4 other = ToFileHandle({server.exports.table().Resolve("/").found->id(), tree.Root()});
  EXPECT_EQ(Client().Run(PutFh(file), GetAttr({FATTR4_CHANGE}), Closing({})).status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(Client().Run(PutFh(other), GetAttr({FATTR4_CHANGE}), Closing(open)).status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(Client().Run(PutFh(file), GetAttr({FATTR4_CHANGE}), Op(OP_SECINFO, SECINFO4args{"inside"})).status,
            NFS4ERR_WRONGSEC);
}

TEST_F(StateProtectionTest, MachineMayOnlyReturnStateInARefusedFlavor) {
  const stateid4 open = OpenByAlice();
  AsMachine();
  EXPECT_EQ(Client().Run(PutFh(file), Reading(open)).status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(Client().Run(PutFh(file), Writing(open)).status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(Client().Run(PutFh(file), GetAttr({FATTR4_CHANGE}), Reading(open), Closing(open)).status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(Client().Run(PutFh(file), Closing(open), Reading(kAnonymous)).status, NFS4ERR_ACCESS);
}

TEST_F(StateProtectionTest, OtherCallersMayNotUseARefusedFlavor) {
  const stateid4 open = OpenByAlice();
  server.SetInitiator(Alice(), rpc::GssService::kIntegrity);
  EXPECT_EQ(Client().Run(PutFh(file), Closing(open)).status, NFS4ERR_WRONGSEC);
  AsMachine(rpc::GssService::kNone);
  EXPECT_EQ(Client().Run(PutFh(file), Closing(open)).status, NFS4ERR_WRONGSEC);
  AsAlice();
  EXPECT_EQ(Client().Run(PutFh(file), Closing(open)).status, NFS4_OK);
}

TEST_F(StateProtectionTest, MachineNeedsPermissionForARefusedFlavor) {
  SessionClient plain(server, "plain", 1, 0, Wishes({}, {}));
  AsAlice();
  auto reply = plain.Run(PutRoot(), Opening(plain.client(), 0, "alice", kRead, 0, Named("file")));
  const stateid4 open = reply.Skip().Next<OPEN4res>().resok4().stateid;
  AsMachine();
  EXPECT_EQ(plain.Run(PutFh(file), Closing(open)).status, NFS4ERR_WRONGSEC);
}

// RFC 8881 §18.29.3: SECINFO gives nobody names that LOOKUP does not give.
TEST_F(StateProtectionTest, MachineMayNotCallSecinfoInClosedDirectories) {
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  fs::NewAttributes attributes;
  attributes.mode = 0700;
  const auto made = Now(tree.MakeDirectory(context, tree.Root(), "private", attributes));
  Now(tree.Create(context, made.result->handle, "inside", {}));
  const nfs_fh4 directory = ToFileHandle({server.exports.table().Resolve("/").found->id(), made.result->handle});
  const auto ask = Op(OP_SECINFO, SECINFO4args{"inside"});
  Client();
  EXPECT_EQ(Client().Run(PutFh(directory), ask).status, NFS4ERR_ACCESS);
  AsMachine(rpc::GssService::kNone);
  EXPECT_EQ(Client().Run(PutFh(directory), ask).status, NFS4ERR_ACCESS);
}

// RFC 8881 §18.35.3: else Linux could not lead a user from one export to the next there.
TEST_F(StateProtectionTest, MachineMayCallSecinfoForExportsInClosedDirectories) {
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  fs::NewAttributes attributes;
  attributes.mode = 0700;
  const auto made = Now(tree.MakeDirectory(context, tree.Root(), "private", attributes));
  Now(tree.MakeDirectory(context, made.result->handle, "inner", {}));
  server.Export("/private/inner");
  const nfs_fh4 directory = ToFileHandle({server.exports.table().Resolve("/").found->id(), made.result->handle});
  const auto ask = Op(OP_SECINFO, SECINFO4args{"inner"});
  Client();
  EXPECT_EQ(Client().Run(PutFh(directory), ask).status, NFS4_OK);
  AsMachine(rpc::GssService::kNone);
  EXPECT_EQ(Client().Run(PutFh(directory), ask).status, NFS4ERR_ACCESS);
}

// ---- callbacks ----

// Has a context of the machine, with the handle "fore".
class OneContext final : public rpc::SecurityFlavor {
 public:
  Task<Admission> Admit(const rpc::Message&, const rpc::CallHeader&, size_t, const rpc::Peer&) override {
    co_return Admission();
  }
  std::shared_ptr<rpc::ReverseProtection> Reverse(ConstBytes handle, ConstBytes reverse_handle,
                                                  const rpc::GssInitiator& initiator) override {
    if (AsText(handle) != "fore" || initiator.name != Machine().With({}).initiator->name) return nullptr;
    handles.emplace_back(AsText(reverse_handle));
    return std::make_shared<Silent>();
  }
  std::vector<std::string> handles;

 private:
  class Silent final : public rpc::ReverseProtection {
    Task<Result<rpc::Message, rpc::CallError>> Call(rpc::BackChannel&, rpc::Message, rpc::ReplyShape) override {
      co_return std::unexpected(rpc::CallError::kDisconnected);
    }
    TimePoint expires() const override { return TimePoint::max(); }
    size_t handle_size() const override { return 8; }
  };
};

callback_sec_parms4 InContext(std::string_view handle) {
  gss_cb_handles4 handles;
  handles.gcbp_service = RPC_GSS_SVC_INTEGRITY;
  handles.gcbp_handle_from_server = AsBytes(handle);
  handles.gcbp_handle_from_client = AsBytes(std::string_view("back"));
  return callback_sec_parms4(rpcmsg::RPCSEC_GSS, handles);
}
callback_sec_parms4 Plain() { return callback_sec_parms4(rpcmsg::AUTH_NONE); }

class CallbackSecurityTest : public StateProtectionTest {
 protected:
  CallbackSecurityTest() { server.gss = &contexts; }
  CREATE_SESSION4res Create(decltype(CREATE_SESSION4args::csa_sec_parms) offered) {
    const auto known = Exchange(state_protect4_a(SP4_NONE));
    client_ = ClientId(known.eir_resok4().eir_clientid);
    const CREATE_SESSION4args wanted{.csa_clientid = client_.value(),
                                     .csa_sequence = known.eir_resok4().eir_sequenceid,
                                     .csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN,
                                     .csa_fore_chan_attrs = PlainChannel(),
                                     .csa_back_chan_attrs = PlainChannel(4),
                                     .csa_cb_program = 0x40000000,
                                     .csa_sec_parms = std::move(offered)};
    server.peer.back_channel = std::make_shared<TestBackChannel>(server.buffers);
    return server.Run(1, Op(OP_CREATE_SESSION, wanted)).Next<CREATE_SESSION4res>();
  }
  bool CanCall() {
    return server.state.Run([&](StateTables& state) { return state.CanCall(client_); });
  }

  OneContext contexts;
  ClientId client_;
};

// RFC 8881 §2.10.8.2
TEST_F(CallbackSecurityTest, UsesAContextThatTheClientHasMade) {
  const auto created = Create({InContext("fore"), Plain()});
  ASSERT_EQ(created.csr_status(), NFS4_OK);
  EXPECT_EQ(created.csr_resok4().csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  const auto program = server.state.Run(
      [&](StateTables& state) { return state.sessions.FindCallbackProgram(created.csr_resok4().csr_sessionid); });
  ASSERT_TRUE(program);
  EXPECT_TRUE(program->credential.protection());
  EXPECT_EQ(program->credential.auth().flavor, rpc::AuthFlavor::RPCSEC_GSS);
  EXPECT_EQ(contexts.handles, std::vector<std::string>{"back"});
}

TEST_F(CallbackSecurityTest, UsesTheOrderOfTheClient) {
  ASSERT_EQ(Create({Plain(), InContext("fore")}).csr_status(), NFS4_OK);
  EXPECT_TRUE(contexts.handles.empty());
}

TEST_F(CallbackSecurityTest, UsesAnotherFlavorIfTheContextIsUnknown) {
  const auto created = Create({InContext("unknown"), Plain()});
  ASSERT_EQ(created.csr_status(), NFS4_OK);
  EXPECT_EQ(created.csr_resok4().csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_TRUE(CanCall());
}

// RFC 8881 §18.36.3
TEST_F(CallbackSecurityTest, MakesNoSessionIfTheOnlyContextIsUnknown) {
  EXPECT_EQ(Create({InContext("unknown")}).csr_status(), NFS4ERR_NOENT);
}

TEST_F(CallbackSecurityTest, DoesNotUseTheContextOfAnotherPrincipal) {
  AsAlice();
  EXPECT_EQ(Create({InContext("fore")}).csr_status(), NFS4ERR_NOENT);
}

// RFC 8881 §18.33
TEST_F(CallbackSecurityTest, BackchannelCtlChangesTheContext) {
  SessionClient client(server, "another", 1);
  const auto control = [&](std::vector<callback_sec_parms4> ways) {
    BACKCHANNEL_CTL4args asked{.bca_cb_program = 0x40000000, .bca_sec_parms = {}};
    for (callback_sec_parms4& way : ways) asked.bca_sec_parms.push_back(std::move(way));
    return client.Run(Op(OP_BACKCHANNEL_CTL, asked)).status;
  };
  const auto is_protected = [&] {
    const auto program =
        server.state.Run([&](StateTables& state) { return state.sessions.FindCallbackProgram(client.session()); });
    return program && program->credential.protection() != nullptr;
  };
  EXPECT_FALSE(is_protected());
  EXPECT_EQ(control({InContext("fore"), Plain()}), NFS4_OK);
  EXPECT_TRUE(is_protected());
  EXPECT_EQ(control({Plain(), InContext("unknown")}), NFS4ERR_NOENT);
  EXPECT_TRUE(is_protected());
  EXPECT_EQ(control({Plain()}), NFS4_OK);
  EXPECT_FALSE(is_protected());
}

}  // namespace
}  // namespace penstock::nfs::v4
