// Clients and sessions of minor version 1 as COMPOUNDs. state/clients/clients_1_test.cc and
// state/sessions/sessions_test.cc test the cases of the tables.
#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/state/clients/test_clients.h"
#include "rpc/connection_control.h"

namespace penstock::nfs::v4 {
namespace {

class ExchangeIdOperationTest : public Nfs4Test {
 protected:
  EXCHANGE_ID4res Exchange(uint32_t flags, const state_protect4_a& protection = state_protect4_a(SP4_NONE),
                           uint32_t minor_version = 1) {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("owner")}},
                               .eia_flags = flags,
                               .eia_state_protect = protection,
                               .eia_client_impl_id = {}};
    return server.Run(minor_version, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
  }
};

TEST_F(ExchangeIdOperationTest, ReturnsTheServersIdentity) {
  const auto answer = Exchange(0);
  ASSERT_EQ(answer.eir_status(), NFS4_OK);
  const EXCHANGE_ID4resok& ok = answer.eir_resok4();
  EXPECT_EQ(ok.eir_flags, EXCHGID4_FLAG_USE_NON_PNFS);
  EXPECT_EQ(ok.eir_state_protect.spr_how(), SP4_NONE);
  EXPECT_EQ(AsText(ok.eir_server_owner.so_major_id.bytes()), "penstock");
  EXPECT_EQ(AsText(ok.eir_server_scope.bytes()), "penstock");
  ASSERT_TRUE(ok.eir_server_impl_id);
  EXPECT_EQ(ok.eir_server_impl_id->nii_name, "penstock");
}

// RFC 8881 §18.35.3: the implementation ID, or its absence, has no effect.
TEST_F(ExchangeIdOperationTest, IgnoresTheClientsImplementationId) {
  SessionClient client(server, "owner", 1);
  EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("owner")}},
                       .eia_flags = 0,
                       .eia_state_protect = state_protect4_a(SP4_NONE),
                       .eia_client_impl_id = {}};
  const auto ask = [&] { return server.Run(1, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>(); };
  const auto without = ask();
  ASSERT_EQ(without.eir_status(), NFS4_OK);
  EXPECT_EQ(without.eir_resok4().eir_clientid, client.client().value());
  const nfs_impl_id4 named{.nii_domain = "kernel.org", .nii_name = "Linux 6.1", .nii_date = {}};
  for (const nfs_impl_id4& implementation : {named, nfs_impl_id4{}}) {
    who.eia_client_impl_id = implementation;
    const auto with = ask();
    ASSERT_EQ(with.eir_status(), NFS4_OK);
    EXPECT_EQ(with.eir_resok4().eir_clientid, client.client().value());
    EXPECT_EQ(with.eir_resok4().eir_flags, without.eir_resok4().eir_flags);
  }
}

TEST_F(ExchangeIdOperationTest, ReportsWhetherTheClientIsConfirmed) {
  SessionClient client(server, "owner", 1);
  const auto answer = Exchange(EXCHGID4_FLAG_SUPP_MOVED_REFER | EXCHGID4_FLAG_USE_PNFS_DS);
  ASSERT_EQ(answer.eir_status(), NFS4_OK);
  EXPECT_EQ(answer.eir_resok4().eir_clientid, client.client().value());
  EXPECT_EQ(answer.eir_resok4().eir_flags, EXCHGID4_FLAG_USE_NON_PNFS | EXCHGID4_FLAG_CONFIRMED_R);
  EXPECT_EQ(Exchange(EXCHGID4_FLAG_UPD_CONFIRMED_REC_A).eir_status(), NFS4_OK);
}

TEST_F(ExchangeIdOperationTest, RejectsUndefinedFlags) {
  EXPECT_EQ(Exchange(8).eir_status(), NFS4ERR_INVAL);
  EXPECT_EQ(Exchange(EXCHGID4_FLAG_CONFIRMED_R).eir_status(), NFS4ERR_INVAL);
  EXPECT_EQ(Exchange(EXCHGID4_FLAG_SUPP_FENCE_OPS).eir_status(), NFS4ERR_INVAL);
  EXPECT_EQ(Exchange(EXCHGID4_FLAG_SUPP_FENCE_OPS, state_protect4_a(SP4_NONE), 2).eir_status(), NFS4_OK);
}

TEST_F(ExchangeIdOperationTest, DoesNotSupportSsvProtection) {
  EXPECT_EQ(Exchange(0, state_protect4_a(SP4_SSV)).eir_status(), NFS4ERR_INVAL);
  ssv_sp_parms4 secret{};
  secret.ssp_hash_algs.emplace_back(AsBytes("hash"));
  secret.ssp_encr_algs.emplace_back(AsBytes("cipher"));
  EXPECT_EQ(Exchange(0, state_protect4_a(SP4_SSV, secret)).eir_status(), NFS4ERR_HASH_ALG_UNSUPP);
}

// A connection that can step up, or that cannot.
class TestControl final : public rpc::ConnectionControl {
 public:
  rpc::ConnectionLimits Offer(const rpc::ConnectionLimits& asked) const override { return asked; }
  void Bind(rpc::Xid, const rpc::ConnectionLimits&) override {}
  size_t ReplyRoom(rpc::Xid) const override { return SIZE_MAX; }
  std::optional<rpc::ConnectionLimits> OfferStepUp(rpc::Xid, const rpc::ConnectionLimits& asked) const override {
    if (!can_step_up) return std::nullopt;
    return rpc::Grant(asked, most);
  }
  void StepUp(rpc::Xid, const rpc::ConnectionLimits& limits) override { steps.push_back(limits); }

  bool can_step_up = true;
  rpc::ConnectionLimits most{.max_request = 4096, .max_response = 4096, .credits = 64, .padding = 64, .reads = 16};
  std::vector<rpc::ConnectionLimits> steps;
};

class CreateSessionOperationTest : public Nfs4Test {
 protected:
  CreateSessionOperationTest() {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("owner")}},
                               .eia_flags = 0,
                               .eia_state_protect = state_protect4_a(SP4_NONE),
                               .eia_client_impl_id = {}};
    const auto made = server.Run(1, Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
    const channel_attrs4 channel{.ca_headerpadsize = 16,
                                 .ca_maxrequestsize = 8192,
                                 .ca_maxresponsesize = 8192,
                                 .ca_maxresponsesize_cached = 8192,
                                 .ca_maxoperations = 8,
                                 .ca_maxrequests = 4,
                                 .ca_rdma_ird = 5};
    asked_ = {.csa_clientid = made.eir_resok4().eir_clientid,
              .csa_sequence = made.eir_resok4().eir_sequenceid,
              .csa_flags = 0,
              .csa_fore_chan_attrs = channel,
              .csa_back_chan_attrs = channel,
              .csa_cb_program = 0x40000000,
              .csa_sec_parms = {}};
  }
  CREATE_SESSION4res Create() { return server.Run(1, Op(OP_CREATE_SESSION, asked_)).Next<CREATE_SESSION4res>(); }

  CREATE_SESSION4args asked_;
};

TEST_F(CreateSessionOperationTest, GrantsTheSessionThatItReports) {
  const auto created = Create();
  ASSERT_EQ(created.csr_status(), NFS4_OK);
  const CREATE_SESSION4resok& ok = created.csr_resok4();
  EXPECT_EQ(ok.csr_sequence, asked_.csa_sequence);
  EXPECT_EQ(ok.csr_fore_chan_attrs.ca_headerpadsize, 0u);
  EXPECT_EQ(ok.csr_fore_chan_attrs.ca_maxrequests, 4u);
  EXPECT_EQ(ok.csr_back_chan_attrs.ca_maxrequests, 4u);
  EXPECT_EQ(Create(), created);
}

TEST_F(CreateSessionOperationTest, GrantsPersistenceOnRequestButNoRdmaModeIfTheConnectionCannotStepUp) {
  asked_.csa_flags =
      CREATE_SESSION4_FLAG_PERSIST | CREATE_SESSION4_FLAG_CONN_RDMA | CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  const auto created = Create();
  EXPECT_EQ(created.csr_resok4().csr_flags, CREATE_SESSION4_FLAG_PERSIST);
  EXPECT_EQ(Create(), created);
}

TEST_F(CreateSessionOperationTest, GrantsRdmaModeWithTheDefaultThresholdsAndTheLimitsOfTheForeChannel) {
  TestControl control;
  server.peer.control = &control;
  asked_.csa_flags = CREATE_SESSION4_FLAG_CONN_RDMA;
  const rpc::ConnectionLimits expected{
      .max_request = 1024, .max_response = 1024, .credits = 4, .padding = 0, .reads = 5};
  EXPECT_EQ(Create().csr_resok4().csr_flags, CREATE_SESSION4_FLAG_CONN_RDMA);
  EXPECT_EQ(control.steps, std::vector{expected});
  // The flag of a retry depends on the connection of the retry.
  control.can_step_up = false;
  EXPECT_EQ(Create().csr_resok4().csr_flags, 0u);
  control.can_step_up = true;
  control.most.max_request = 1023;
  EXPECT_EQ(Create().csr_resok4().csr_flags, 0u) << "the client would send up to 1024 octets";
  EXPECT_EQ(control.steps.size(), 1u);
}

TEST_F(CreateSessionOperationTest, GrantsRdmaModeOnlyOnRequestAndOnSuccess) {
  TestControl control;
  server.peer.control = &control;
  EXPECT_EQ(Create().csr_resok4().csr_flags, 0u);
  asked_.csa_flags = CREATE_SESSION4_FLAG_CONN_RDMA;
  asked_.csa_sequence += 9;
  EXPECT_EQ(Create().csr_status(), NFS4ERR_SEQ_MISORDERED);
  EXPECT_TRUE(control.steps.empty());
}

TEST_F(CreateSessionOperationTest, RejectsUndefinedFlags) {
  asked_.csa_flags = 0xf;
  EXPECT_EQ(Create().csr_status(), NFS4ERR_INVAL);
}

// A rejected CREATE_SESSION does not consume its sequence number, so each repetition is rejected again.
TEST_F(CreateSessionOperationTest, RejectsChannelsThatAreTooSmall) {
  const CREATE_SESSION4args good = asked_;
  for (int i = 0; i < 3; ++i) {
    asked_ = good;
    asked_.csa_fore_chan_attrs.ca_maxresponsesize = 0;
    EXPECT_EQ(Create().csr_status(), NFS4ERR_TOOSMALL);
    asked_ = good;
    asked_.csa_back_chan_attrs.ca_maxrequestsize = 10;
    EXPECT_EQ(Create().csr_status(), NFS4ERR_TOOSMALL);
  }
  asked_ = good;
  EXPECT_EQ(Create().csr_status(), NFS4_OK);
}

TEST_F(CreateSessionOperationTest, UsesTheFirstSupportedCallbackCredential) {
  gss_cb_handles4 handles{};
  rpcmsg::authsys_parms user{};
  user.machinename = "somewhere";
  user.gids = {13, 17};
  asked_.csa_sec_parms = {callback_sec_parms4(rpcmsg::RPCSEC_GSS, handles),
                          callback_sec_parms4(rpcmsg::AUTH_SYS, user)};
  EXPECT_EQ(Create().csr_status(), NFS4_OK);
}

TEST_F(CreateSessionOperationTest, RejectsUnknownRpcsecGssHandles) {
  asked_.csa_sec_parms = {callback_sec_parms4(rpcmsg::RPCSEC_GSS, gss_cb_handles4{})};
  EXPECT_EQ(Create().csr_status(), NFS4ERR_NOENT);
}

// RFC 8881 §19.1.3. A retry of CREATE_SESSION binds no connection, so the server does not probe again.
TEST_F(CreateSessionOperationTest, ProbesAConnectionOfTheBackchannel) {
  server.peer.back_channel = std::make_shared<TestBackChannel>(server.buffers);
  for (const uint32_t persist : {uint32_t{0}, CREATE_SESSION4_FLAG_PERSIST}) {
    server.callbacks.session_probes.clear();
    asked_.csa_flags = persist | CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
    const auto created = Create();
    ASSERT_EQ(created.csr_resok4().csr_flags, asked_.csa_flags);
    ASSERT_EQ(server.callbacks.session_probes.size(), 1u);
    EXPECT_EQ(server.callbacks.session_probes[0].first, created.csr_resok4().csr_sessionid);
    EXPECT_EQ(server.callbacks.session_probes[0].second, server.peer.back_channel);
    EXPECT_EQ(Create(), created);
    EXPECT_EQ(server.callbacks.session_probes.size(), 1u);
    ++asked_.csa_sequence;
  }
}

TEST_F(CreateSessionOperationTest, DoesNotProbeOtherConnections) {
  asked_.csa_flags = CREATE_SESSION4_FLAG_CONN_BACK_CHAN;
  ASSERT_EQ(Create().csr_resok4().csr_flags, 0u);
  server.peer.back_channel = std::make_shared<TestBackChannel>(server.buffers);
  asked_.csa_flags = 0;
  ++asked_.csa_sequence;
  ASSERT_EQ(Create().csr_status(), NFS4_OK);
  EXPECT_TRUE(server.callbacks.session_probes.empty());
}

class SessionOperationsTest : public Nfs4Test {
 protected:
  nfsstat4 DestroyClient(ClientId id) {
    return server.Run(1, Op(OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args{id.value()})).status;
  }
  nfsstat4 DestroySession(const SessionId& id) {
    return server.Run(1, Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{id})).status;
  }
};

TEST_F(SessionOperationsTest, DestroySessionMayStandAlone) {
  EXPECT_EQ(DestroySession(Client().session()), NFS4_OK);
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(DestroySession(Client().session()), NFS4ERR_BADSESSION);
}

// RFC 8881 §18.37.3
TEST_F(SessionOperationsTest, DestroySessionOfItsOwnSessionMustBeLast) {
  const auto destroy = Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{Client().session()});
  EXPECT_EQ(Run(destroy, PutRoot()).status, NFS4ERR_NOT_ONLY_OP);
  EXPECT_EQ(Run(PutRoot(), destroy).status, NFS4_OK);
  EXPECT_EQ(server.Run(2, Client().Sequence()).status, NFS4ERR_BADSESSION);
}

TEST_F(SessionOperationsTest, DestroySessionOfAnotherSessionMayStandAnywhere) {
  SessionClient other(server, "other");
  EXPECT_EQ(Run(Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{other.session()}), PutRoot()).status, NFS4_OK);
}

TEST_F(SessionOperationsTest, RejectsDestroySessionOverAnUnboundConnection) {
  const SessionId session = Client().session();
  server.peer.connection = 2;
  EXPECT_EQ(DestroySession(session), NFS4ERR_CONN_NOT_BOUND_TO_SESSION);
  const BIND_CONN_TO_SESSION4args bind{
      .bctsa_sessid = session, .bctsa_dir = CDFC4_FORE_OR_BOTH, .bctsa_use_conn_in_rdma_mode = true};
  const auto bound = server.Run(1, Op(OP_BIND_CONN_TO_SESSION, bind)).Next<BIND_CONN_TO_SESSION4res>();
  ASSERT_EQ(bound.bctsr_status(), NFS4_OK);
  EXPECT_EQ(bound.bctsr_resok4().bctsr_dir, CDFS4_FORE);
  EXPECT_FALSE(bound.bctsr_resok4().bctsr_use_conn_in_rdma_mode);
  EXPECT_EQ(DestroySession(session), NFS4_OK);
}

TEST_F(SessionOperationsTest, BindStepsUpWithTheLimitsOfTheSessionThatItNames) {
  TestControl control;
  server.peer.control = &control;
  BIND_CONN_TO_SESSION4args bind{
      .bctsa_sessid = Client().session(), .bctsa_dir = CDFC4_FORE, .bctsa_use_conn_in_rdma_mode = true};
  const auto bound = server.Run(1, Op(OP_BIND_CONN_TO_SESSION, bind)).Next<BIND_CONN_TO_SESSION4res>();
  EXPECT_TRUE(bound.bctsr_resok4().bctsr_use_conn_in_rdma_mode);
  ASSERT_EQ(control.steps.size(), 1u);
  EXPECT_EQ(control.steps[0].credits, 4u);
  EXPECT_EQ(control.steps[0].reads, 16u) << "a client that names no number of Reads takes any";
  bind.bctsa_sessid[0] ^= std::byte{1};
  EXPECT_EQ(server.Run(1, Op(OP_BIND_CONN_TO_SESSION, bind)).status, NFS4ERR_BADSESSION);
  EXPECT_EQ(control.steps.size(), 1u);
}

TEST_F(SessionOperationsTest, DestroyClientIdRequiresThatItsSessionsAreGone) {
  const ClientId client = Client().client();
  EXPECT_EQ(DestroyClient(client), NFS4ERR_CLIENTID_BUSY);
  EXPECT_EQ(Run(Op(OP_DESTROY_CLIENTID, DESTROY_CLIENTID4args{client.value()})).status, NFS4ERR_CLIENTID_BUSY);
  EXPECT_EQ(DestroySession(Client().session()), NFS4_OK);
  EXPECT_EQ(DestroyClient(client), NFS4_OK);
  EXPECT_EQ(DestroyClient(client), NFS4ERR_STALE_CLIENTID);
}

TEST_F(SessionOperationsTest, BackchannelCtlChangesTheBackchannel) {
  BACKCHANNEL_CTL4args arguments{.bca_cb_program = 0x40000077, .bca_sec_parms = {}};
  EXPECT_EQ(Run(Op(OP_BACKCHANNEL_CTL, arguments)).status, NFS4_OK);
  arguments.bca_sec_parms = {callback_sec_parms4(rpcmsg::AUTH_NONE),
                             callback_sec_parms4(rpcmsg::RPCSEC_GSS, gss_cb_handles4{})};
  EXPECT_EQ(Run(Op(OP_BACKCHANNEL_CTL, arguments)).status, NFS4ERR_NOENT);
}

TEST_F(SessionOperationsTest, ProbesAConnectionThatIsBoundForCallbacks) {
  SessionClient& client = Client();
  server.peer.back_channel = std::make_shared<TestBackChannel>(server.buffers);
  const auto bind = [&](channel_dir_from_client4 direction) {
    server.peer.connection = rpc::NewConnectionNumber();
    const BIND_CONN_TO_SESSION4args arguments{
        .bctsa_sessid = client.session(), .bctsa_dir = direction, .bctsa_use_conn_in_rdma_mode = false};
    ASSERT_EQ(server.Run(client.minor_version(), Op(OP_BIND_CONN_TO_SESSION, arguments)).status, NFS4_OK);
  };
  bind(CDFC4_FORE);
  EXPECT_TRUE(server.callbacks.session_probes.empty());
  bind(CDFC4_FORE_OR_BOTH);
  ASSERT_EQ(server.callbacks.session_probes.size(), 1u);
  EXPECT_EQ(server.callbacks.session_probes[0].first, client.session());
  EXPECT_EQ(server.callbacks.session_probes[0].second, server.peer.back_channel);
}

TEST_F(SessionOperationsTest, RejectsSetSsv) { EXPECT_EQ(Run(Op(OP_SET_SSV, SET_SSV4args{})).status, NFS4ERR_INVAL); }

TEST_F(SessionOperationsTest, AcceptsReclaimCompleteOnce) {
  EXPECT_EQ(Run(Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{false})).status, NFS4ERR_COMPLETE_ALREADY);
}

// RFC 8881 §18.51.3: RECLAIM_COMPLETE for one file system has no effect in this server. It requires a current
// filehandle, which names the file system.
TEST_F(SessionOperationsTest, IgnoresReclaimCompleteOfOneFileSystem) {
  const auto one = Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{true});
  EXPECT_EQ(Run(one).status, NFS4ERR_NOFILEHANDLE);
  EXPECT_EQ(Run(PutRoot(), one).status, NFS4_OK);
}

}  // namespace
}  // namespace penstock::nfs::v4
