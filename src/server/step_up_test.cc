// Tests of a whole server whose clients turn their TCP connections into RDMA connections: RFC 8881 §18.36.3
// (CREATE_SESSION4_FLAG_CONN_RDMA) and §18.34.3 (bctsa_use_conn_in_rdma_mode).
#include <sys/socket.h>

#include <deque>

#include "base/released_socket.h"
#include "base/test_loop.h"
#include "client/connect.h"
#include "nfs/v4/engine/nfs4_test.h"
#include "rpc/tcp/channel.h"
#include "server/test_server.h"

namespace penstock::server {
namespace {

using namespace nfs::v4;  // NOLINT: the operations as nfs4_test.h writes them

constexpr uint32_t kBoth = CREATE_SESSION4_FLAG_CONN_BACK_CHAN | CREATE_SESSION4_FLAG_CONN_RDMA;

// A client of minor version 1 that writes its COMPOUNDs itself.
class StepUpTest : public ServerTest {
 protected:
  ~StepUpTest() override {
    channel_.reset();
    if (over_rdma_) {
      EXPECT_TRUE(TurnUntil(loop_, [this] { return !over_rdma_; })) << "the connection has not ended";
    }
    TurnFor(loop_, std::chrono::milliseconds(1));
    if (server_) StopServer();
  }

  // Counts the calls of the server, and answers CB_NULL.
  class CallbackHandler : public rpc::CallHandler {
   public:
    Task<rpc::Message> HandleCall(rpc::Message call, const rpc::Peer& peer) override {
      ++calls;
      over = peer.transport;
      xdr::Encoder encoder(*peer.buffers);
      encoder.U32(LoadBig<uint32_t>(call.stream.data()));
      for (const uint32_t word : {1, 0, 0, 0, 0}) encoder.U32(word);
      co_return encoder.Finish();
    }
    size_t calls = 0;
    rpc::TransportKind over = rpc::TransportKind::kTcp;
  };

  void Start(bool step_up = true) {
    TestOptions options = ServerOptions();
    options.step_up = step_up;
    options.trace = trace_;
    StartServer(options);
  }
  void Connect() {
    auto connected =
        Await(rpc::tcp::Channel::Connect(loop_, server_->addresses().tcp.front(), {.back_channel = &callbacks_}));
    ASSERT_TRUE(connected);
    tcp_ = connected->get();
    channel_ = *std::move(connected);
  }
  // Starts with the server, a connection and a client ID.
  void StartClient() {
    Start();
    Connect();
    ExchangeId();
  }
  // Steps up after the grant.
  void StepUp(uint32_t credits = 4) {
    const rpc::ConnectionLimits limits{.max_request = 1024, .max_response = 1024, .credits = credits, .reads = 16};
    client::ChannelOptions options{.back_channel = &callbacks_, .on_lost = [this] { over_rdma_ = false; }};
    auto stepped = Await(client::StepUp(loop_, *tcp_, provider_, limits, Url("/tree"), std::move(options)));
    ASSERT_TRUE(stepped) << stepped.error().message;
    over_rdma_ = true;
    channel_ = *std::move(stepped);
  }

  template <class T>
  T Await(Task<T> task) {
    std::optional<T> result;
    Spawn([](Task<T> waiting, std::optional<T>& out) -> Task<> {
      T value = co_await std::move(waiting);
      out.emplace(std::move(value));
    }(std::move(task), result));
    EXPECT_TRUE(TurnUntil(loop_, [&] { return result.has_value(); }));
    return *std::move(result);
  }

  using Outcome = Result<rpc::Message, rpc::CallError>;
  template <class... Arguments>
  Task<Outcome> Send(const Sent<Arguments>&... operations) {
    xdr::Encoder encoder(loop_.buffers());
    const rpc::ClientCredential root({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), NFS4_PROGRAM, NFS_V4, 1, root.auth(), {}});
    xdr::Encode(encoder, COMPOUND4args_head{"", 1, sizeof...(operations)});
    ((encoder.U32(static_cast<uint32_t>(operations.number)), xdr::Encode(encoder, operations.arguments)), ...);
    return channel_->Call(encoder.Finish(), {.max_stream = 8192, .results = {}});
  }
  CompoundReply ReplyOf(Outcome outcome) {
    EXPECT_TRUE(outcome) << "call failed: " << (outcome ? 0 : static_cast<int>(outcome.error()));
    nfs::Answer& answer = answers_.emplace_back(nfs::Answer{.message = *std::move(outcome), .header = {}});
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return CompoundReply(answer);
  }
  template <class... Arguments>
  CompoundReply Run(const Sent<Arguments>&... operations) {
    return ReplyOf(Await(Send(operations...)));
  }

  void ExchangeId() {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("owner")}},
                               .eia_flags = 0,
                               .eia_state_protect = state_protect4_a(SP4_NONE),
                               .eia_client_impl_id = {}};
    const auto known = Run(Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
    client_ = known.eir_resok4().eir_clientid;
    create_sequence_ = known.eir_resok4().eir_sequenceid;
  }
  auto CreateSession(uint32_t flags) const {
    const channel_attrs4 channel{.ca_headerpadsize = 0,
                                 .ca_maxrequestsize = 1 << 20,
                                 .ca_maxresponsesize = 1 << 20,
                                 .ca_maxresponsesize_cached = 4096,
                                 .ca_maxoperations = 8,
                                 .ca_maxrequests = 4,
                                 .ca_rdma_ird = {}};
    return Op(OP_CREATE_SESSION, CREATE_SESSION4args{.csa_clientid = client_,
                                                     .csa_sequence = create_sequence_,
                                                     .csa_flags = flags,
                                                     .csa_fore_chan_attrs = channel,
                                                     .csa_back_chan_attrs = channel,
                                                     .csa_cb_program = 0x40000000,
                                                     .csa_sec_parms = {}});
  }
  // Returns the flags that the server has granted.
  uint32_t MakeSession(uint32_t flags) { return FlagsOf(Run(CreateSession(flags))); }
  uint32_t FlagsOf(CompoundReply reply) {
    EXPECT_EQ(reply.status, NFS4_OK);
    const auto made = reply.Next<CREATE_SESSION4res>();
    session_ = made.csr_resok4().csr_sessionid;
    return made.csr_resok4().csr_flags;
  }
  auto Sequence() {
    return Op(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = session_,
                                         .sa_sequenceid = ++sequence_,
                                         .sa_slotid = 0,
                                         .sa_highest_slotid = 0,
                                         .sa_cachethis = false});
  }
  auto Bind(bool in_rdma_mode) const {
    return Op(OP_BIND_CONN_TO_SESSION, BIND_CONN_TO_SESSION4args{.bctsa_sessid = session_,
                                                                 .bctsa_dir = CDFC4_FORE_OR_BOTH,
                                                                 .bctsa_use_conn_in_rdma_mode = in_rdma_mode});
  }
  static auto ReclaimComplete() { return Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{false}); }

  // Gives the socket of the TCP connection to the test. It belongs to the loop.
  ReleasedSocket TakeSocket() { return *tcp_->Release(); }
  // Sends octets, and waits until the server has closed the connection.
  bool Closes(ReleasedSocket& socket, std::string_view octets) {
    ::send(socket.socket.native_handle(), octets.data(), octets.size(), MSG_NOSIGNAL);
    ssize_t n = -1;
    return TurnUntil(loop_,
                     [&] {
                       char octet;
                       n = ::recv(socket.socket.native_handle(), &octet, 1, MSG_DONTWAIT);
                       return n >= 0 || errno == ECONNRESET;
                     }) &&
           n <= 0;
  }

  Loop loop_;
  rdma::iwarp::Provider provider_{loop_};
  CallbackHandler callbacks_;
  std::unique_ptr<rpc::Channel> channel_;
  rpc::tcp::Channel* tcp_ = nullptr;  // channel_, while it is over TCP
  bool over_rdma_ = false;            // the RDMA connection of the client has not ended
  std::filesystem::path trace_;
  uint32_t xid_ = 0;
  uint64_t client_ = 0;
  uint32_t create_sequence_ = 0;
  SessionId session_{};
  uint32_t sequence_ = 0;
  std::deque<nfs::Answer> answers_;
};

TEST_P(StepUpTest, TheSessionAndItsCallbacksGoOnOverTheSameConnection) {
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  StepUp();
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  // The probe of the backchannel has waited for the first FPDU of the client.
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 1; }));
  EXPECT_EQ(callbacks_.over, rpc::TransportKind::kRdma);
  const auto bound = Run(Bind(true)).Next<BIND_CONN_TO_SESSION4res>();
  EXPECT_EQ(bound.bctsr_resok4().bctsr_dir, CDFS4_BOTH);
  EXPECT_FALSE(bound.bctsr_resok4().bctsr_use_conn_in_rdma_mode) << "the connection is not in TCP mode";
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 2; }));
  const auto sequence = Run(Sequence()).Next<SEQUENCE4res>();
  EXPECT_EQ(sequence.sr_resok4().sr_status_flags, 0u);
  EXPECT_EQ(Run(Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{session_})).status, NFS4_OK);
}

// No other operation has joined the connection to the session in the meantime (RFC 8881 §18.37.3).
TEST_P(StepUpTest, TheConnectionStaysInTheChannelsOfItsSession) {
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  StepUp();
  EXPECT_EQ(Run(Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{session_})).status, NFS4_OK);
}

TEST_P(StepUpTest, LongMessagesMoveInChunks) {
  WriteFile(tree() / "file", "");
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  StepUp();
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  const std::string text(100'000, 'p');
  const WRITE4args data{.stateid = {}, .offset = 0, .stable = UNSTABLE4, .data = Data(Slice::Borrowed(AsBytes(text)))};
  EXPECT_EQ(Run(Sequence(), PutRoot(), LookUp("tree"), LookUp("file"), Op(OP_WRITE, data)).status, NFS4_OK);
  EXPECT_EQ(ReadFile(tree() / "file"), text);
}

TEST_P(StepUpTest, APersistentSessionStepsUpAsWell) {
  StartClient();
  ASSERT_EQ(MakeSession(kBoth | CREATE_SESSION4_FLAG_PERSIST), kBoth | CREATE_SESSION4_FLAG_PERSIST);
  StepUp();
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 1; }));
}

TEST_P(StepUpTest, ABoundConnectionStepsUp) {
  StartClient();
  EXPECT_EQ(MakeSession(CREATE_SESSION4_FLAG_CONN_BACK_CHAN), CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 1; }));
  Connect();
  EXPECT_FALSE(Run(Bind(false)).Next<BIND_CONN_TO_SESSION4res>().bctsr_resok4().bctsr_use_conn_in_rdma_mode);
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 2; }));
  const auto bound = Run(Bind(true)).Next<BIND_CONN_TO_SESSION4res>();
  EXPECT_EQ(bound.bctsr_resok4().bctsr_dir, CDFS4_BOTH);
  ASSERT_TRUE(bound.bctsr_resok4().bctsr_use_conn_in_rdma_mode);
  StepUp();
  EXPECT_EQ(Run(Sequence()).status, NFS4_OK);
  EXPECT_TRUE(TurnUntil(loop_, [&] { return callbacks_.calls == 3; }));
  EXPECT_EQ(callbacks_.over, rpc::TransportKind::kRdma);
}

// RFC 8881 §18.36.4: the retry uses another connection in TCP mode.
TEST_P(StepUpTest, ARetryStepsUpOnItsOwnConnection) {
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  const SessionId made = session_;
  Connect();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  EXPECT_EQ(session_, made);
  StepUp();
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
}

TEST_P(StepUpTest, IsRefusedWithoutTheOption) {
  Start(false);
  Connect();
  ExchangeId();
  EXPECT_EQ(MakeSession(kBoth), CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_FALSE(Run(Bind(true)).Next<BIND_CONN_TO_SESSION4res>().bctsr_resok4().bctsr_use_conn_in_rdma_mode);
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
}

TEST_P(StepUpTest, IsRefusedIfAnotherCallFollows) {
  StartClient();
  std::optional<Outcome> first, second;
  const auto start = [](Task<Outcome> call, std::optional<Outcome>& out) {
    Spawn([](Task<Outcome> waiting, std::optional<Outcome>& result) -> Task<> {
      Outcome value = co_await std::move(waiting);
      result.emplace(std::move(value));
    }(std::move(call), out));
  };
  start(Send(CreateSession(kBoth)), first);
  start(Send(Op(OP_PUTROOTFH)), second);
  EXPECT_TRUE(TurnUntil(loop_, [&] { return first && second; }));
  EXPECT_EQ(FlagsOf(ReplyOf(*std::move(first))), CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
}

TEST_P(StepUpTest, IsRefusedInsideASession) {
  StartClient();
  MakeSession(CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  ++create_sequence_;
  auto reply = Run(Sequence(), CreateSession(kBoth));
  EXPECT_EQ(reply.status, NFS4_OK);
  reply.Next<SEQUENCE4res>();
  EXPECT_EQ(reply.Next<CREATE_SESSION4res>().csr_resok4().csr_flags, CREATE_SESSION4_FLAG_CONN_BACK_CHAN);
}

TEST_P(StepUpTest, ClosesAConnectionThatDoesNotStepUpAfterTheGrant) {
  StartClient();
  const std::string record("\x80\0\0\x28\0\0\0\1\0\0\0\0\0\0\0\2\0\1\x86\xa3\0\0\0\4", 24);
  for (const std::string& octets : {record, std::string(100, 'x'), std::string("MPA ID Rep Frame\0\1\0\0", 20)}) {
    ASSERT_EQ(MakeSession(kBoth), kBoth);
    ReleasedSocket socket = TakeSocket();
    EXPECT_TRUE(Closes(socket, octets));
    Connect();
  }
  // The session is there for another connection.
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
}

TEST_P(StepUpTest, StopsWhileAClientHasNotSteppedUpYet) {
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  ReleasedSocket socket = TakeSocket();
  const auto start = std::chrono::steady_clock::now();
  StopServer();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4)) << "the client may take 5 s";
  EXPECT_TRUE(Closes(socket, ""));
}

TEST_P(StepUpTest, TheTraceShowsTheRdmaConnection) {
  trace_ = directory_.path() / "trace.pcapng";
  StartClient();
  ASSERT_EQ(MakeSession(kBoth), kBoth);
  StepUp();
  EXPECT_EQ(Run(Sequence(), ReclaimComplete()).status, NFS4_OK);
  channel_.reset();
  TurnFor(loop_, std::chrono::milliseconds(5));
  StopServer();
  EXPECT_NE(ReadFile(trace_).find("iwarp, up to 16 RDMA Reads from here and 0 of the peer"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, StepUpTest, testing::Values(std::tuple(Protocol::kTcp, Version::k41)),
                         [](const auto&) { return std::string("Tcp"); });

}  // namespace
}  // namespace penstock::server
