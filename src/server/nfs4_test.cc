// The files that an NFSv4 server keeps in its state directory and reads at its next start. These tests need no socket
// and no running loop.
#include "server/nfs4.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <fstream>

#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::server {
namespace {

using namespace nfs::v4;  // NOLINT: the operations as nfs4_test.h writes them

class Nfs4RestartTest : public testing::Test {
 protected:
  Nfs4RestartTest() {
    std::string name = testing::TempDir() + "/nfs4.XXXXXX";
    EXPECT_TRUE(::mkdtemp(name.data()));
    state_directory_ = name;
    auto tree = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{});
    EXPECT_TRUE(exports_.Add("/", tree, {.squash = nfs::Squash::kNone}));
    peer_.buffers = &buffers_;
    peer_.connection = 1;
    Start();
  }
  ~Nfs4RestartTest() override {
    server_.reset();
    pool_.Join();
    std::filesystem::remove_all(state_directory_);
  }

  // Starts a server on the state directory. As after SIGKILL, the previous server gets no notice.
  void Start() {
    server_.reset();
    auto made = Nfs4::Make(
        {}, {.exports = exports_, .pool = pool_, .home = home_, .state_directory = state_directory_, .tcp = {}});
    ASSERT_TRUE(made) << made.error().message;
    server_ = *std::move(made);
  }

  template <class... Arguments>
  CompoundReply Run(const Sent<Arguments>&... operations) {
    xdr::Encoder encoder(buffers_);
    const rpc::ClientCredential root({.machine = "client", .uid = 0, .gid = 0, .groups = {}});
    rpc::EncodeCallHeader(encoder, {rpc::Xid(++xid_), NFS4_PROGRAM, NFS_V4, 1, root.auth(), {}});
    xdr::Encode(encoder, COMPOUND4args_head{"", 1, sizeof...(operations)});
    ((encoder.U32(static_cast<uint32_t>(operations.number)), xdr::Encode(encoder, operations.arguments)), ...);
    rpc::Dispatcher dispatcher;
    dispatcher.Add(server_->program());
    nfs::Answer& answer = answers_.emplace_back(
        nfs::Answer{.message = nfs::Now(dispatcher.HandleCall(encoder.Finish(), peer_)), .header = {}});
    xdr::Decoder decoder(answer.message);
    EXPECT_TRUE(rpc::DecodeReplyHeader(decoder, answer.header));
    return CompoundReply(answer);
  }
  // Creates a persistent session.
  SessionId MakeSession() {
    const EXCHANGE_ID4args who{.eia_clientowner = {.co_verifier = {}, .co_ownerid = {AsBytes("owner")}},
                               .eia_flags = 0,
                               .eia_state_protect = state_protect4_a(SP4_NONE),
                               .eia_client_impl_id = {}};
    const auto known = Run(Op(OP_EXCHANGE_ID, who)).Next<EXCHANGE_ID4res>();
    const channel_attrs4 channel{.ca_headerpadsize = 0,
                                 .ca_maxrequestsize = 8192,
                                 .ca_maxresponsesize = 8192,
                                 .ca_maxresponsesize_cached = 4096,
                                 .ca_maxoperations = 8,
                                 .ca_maxrequests = 4,
                                 .ca_rdma_ird = {}};
    const CREATE_SESSION4args wanted{.csa_clientid = known.eir_resok4().eir_clientid,
                                     .csa_sequence = known.eir_resok4().eir_sequenceid,
                                     .csa_flags = CREATE_SESSION4_FLAG_PERSIST,
                                     .csa_fore_chan_attrs = channel,
                                     .csa_back_chan_attrs = channel,
                                     .csa_cb_program = 0,
                                     .csa_sec_parms = {}};
    const auto made = Run(Op(OP_CREATE_SESSION, wanted)).Next<CREATE_SESSION4res>();
    EXPECT_EQ(made.csr_resok4().csr_flags, CREATE_SESSION4_FLAG_PERSIST);
    return made.csr_resok4().csr_sessionid;
  }
  static auto Sequence(const SessionId& session, uint32_t number) {
    return Op(OP_SEQUENCE, SEQUENCE4args{.sa_sessionid = session,
                                         .sa_sequenceid = number,
                                         .sa_slotid = 0,
                                         .sa_highest_slotid = 0,
                                         .sa_cachethis = true});
  }
  static auto MakeDirectory(std::string_view name) {
    return Op(OP_CREATE, CREATE4args{.objtype = createtype4(NF4DIR), .objname = name, .createattrs = {}});
  }

  std::filesystem::path state_directory_;
  BufferPool buffers_;
  Workers pool_{1};
  Loop home_;
  nfs::Exports exports_;
  std::unique_ptr<Nfs4> server_;
  rpc::Peer peer_;
  uint32_t xid_ = 0;
  std::deque<nfs::Answer> answers_;
};

TEST_F(Nfs4RestartTest, CreatesStateFilesThatOnlyTheOwnerCanAccess) {
  const mode_t mask = ::umask(0);
  std::filesystem::remove_all(state_directory_);
  std::filesystem::create_directory(state_directory_);
  Start();
  ::umask(mask);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(state_directory_)) {
    names.push_back(entry.path().filename());
    EXPECT_EQ(entry.status().permissions() & ~std::filesystem::perms::owner_all, std::filesystem::perms::none)
        << entry.path();
  }
  EXPECT_THAT(names, testing::IsSupersetOf({"server-id", "nfs4-clients.sqlite", "nfs4-replies"}));
}

TEST_F(Nfs4RestartTest, RejectsADamagedServerId) {
  const std::filesystem::path file = state_directory_ / "server-id";
  for (const std::string_view content : {"", "\n", "penstock-0123", "penstock-0123456789abcdef0123456789abcdeX\n",
                                         "penstock-0123456789abcdef0123456789abcdef and more"}) {
    server_.reset();
    std::ofstream(file) << content;
    const auto made = Nfs4::Make(
        {}, {.exports = exports_, .pool = pool_, .home = home_, .state_directory = state_directory_, .tcp = {}});
    ASSERT_FALSE(made) << content;
    EXPECT_THAT(made.error().message, testing::HasSubstr(file.string() + " is damaged"));
  }
  std::ofstream(file) << "penstock-0123456789abcdef0123456789abcdef\n";
  Start();
}

TEST_F(Nfs4RestartTest, RestoresPersistentSessions) {
  const SessionId session = MakeSession();
  ASSERT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4_OK);
  Start();
  EXPECT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4_OK);
  EXPECT_EQ(Run(Sequence(session, 2), PutRoot(), MakeDirectory("new")).status, NFS4ERR_DEADSESSION);
  Start();
  EXPECT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4_OK);
  EXPECT_EQ(Run(Op(OP_DESTROY_SESSION, DESTROY_SESSION4args{session})).status, NFS4_OK);
  EXPECT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4ERR_BADSESSION);
}

// A second execution would fail, because the directory exists.
TEST_F(Nfs4RestartTest, DoesNotExecuteARetryAfterTheRestart) {
  const SessionId session = MakeSession();
  ASSERT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4_OK);
  Start();
  EXPECT_EQ(Run(Sequence(session, 1), PutRoot(), MakeDirectory("made")).status, NFS4_OK);
  const SessionId anew = MakeSession();
  EXPECT_EQ(Run(Sequence(anew, 1), Op(OP_RECLAIM_COMPLETE, RECLAIM_COMPLETE4args{false})).status, NFS4_OK);
  EXPECT_EQ(Run(Sequence(anew, 2), PutRoot(), MakeDirectory("made")).status, NFS4ERR_EXIST);
}

}  // namespace
}  // namespace penstock::server
