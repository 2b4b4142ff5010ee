// COPY from another server, and COPY_NOTIFY (RFC 7862 §4.5, §15.2, §15.3).
#include "nfs/absent_file_system.h"
#include "nfs/v4/engine/nfs4_test.h"
#include "nfs/v4/operations/copy.h"
#include "nfs/v4/operations/copy_test.h"
#include "nfs/v4/operations/stateful_test.h"
#include "nfs/v4/operations/test_copy_sources.h"

namespace penstock::nfs::v4 {
namespace {

const nfs_fh4 kForeign(AsBytes("a filehandle of another server"));
constexpr stateid4 kGiven{.seqid = 1, .other = {std::byte{7}}};

class CopyFromServerTest : public Nfs4Test {
 protected:
  CopyFromServerTest() {
    server.copy_sources = &sources;
    sources.contents = "0123456789";
  }
  static COPY4args Args(uint64_t from, uint64_t to, uint64_t count) {
    COPY4args arguments = CopyArguments(from, to, count);
    arguments.ca_src_stateid = kGiven;
    arguments.ca_source_server.push_back(netloc4(NL4_NAME, utf8str_cis("server")));
    return arguments;
  }
  CompoundReply Copy(const nfs_fh4& to, const COPY4args& arguments, const nfs_fh4& from = kForeign) {
    return Run(PutFh(from), SaveFh(), PutFh(to), Op(OP_COPY, arguments));
  }
  COPY4resok CopyOk(const nfs_fh4& to, const COPY4args& arguments, const nfs_fh4& from = kForeign) {
    auto reply = Copy(to, arguments, from);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip(3).Next<COPY4res>().cr_resok4();
  }

  TestCopySources sources;
};

TEST_F(CopyFromServerTest, CopiesTheRangeAndClosesTheSource) {
  const nfs_fh4 to = MakeFile("to", "abcdefgh");
  EXPECT_EQ(CopyOk(to, Args(2, 4, 5)).cr_response.wr_count, 5u);
  EXPECT_EQ(ContentsOf("to"), "abcd23456");
  EXPECT_EQ(sources.file, kForeign);
  EXPECT_EQ(sources.stateid, kGiven);
  EXPECT_EQ(sources.open, 0u);
}

TEST_F(CopyFromServerTest, CountOfZeroCopiesToTheEnd) {
  EXPECT_EQ(CopyOk(MakeFile("to"), Args(3, 0, 0)).cr_response.wr_count, 7u);
  EXPECT_EQ(ContentsOf("to"), "3456789");
  EXPECT_EQ(CopyOk(MakeFile("other"), Args(10, 0, 0)).cr_response.wr_count, 0u);
}

// The client may know one server by two addresses.
TEST_F(CopyFromServerTest, AsksTheSourceAlsoForAFilehandleOfItsOwn) {
  const nfs_fh4 from = MakeFile("from", "own");
  EXPECT_EQ(CopyOk(MakeFile("to"), Args(0, 0, 0), from).cr_response.wr_count, 10u);
  EXPECT_EQ(sources.file, from);
}

TEST_F(CopyFromServerTest, RejectsARangeBeyondTheSource) {
  const nfs_fh4 to = MakeFile("to");
  EXPECT_EQ(Copy(to, Args(11, 0, 0)).status, NFS4ERR_INVAL);
  EXPECT_EQ(Copy(to, Args(5, 0, 6)).status, NFS4ERR_INVAL);
  EXPECT_EQ(sources.open, 0u);
}

TEST_F(CopyFromServerTest, ReportsTheOctetsBeforeAFailure) {
  sources.readable = 4;
  EXPECT_EQ(CopyOk(MakeFile("to"), Args(0, 0, 0)).cr_response.wr_count, 4u);
  EXPECT_EQ(ContentsOf("to"), "0123");
  sources.readable = 0;
  EXPECT_EQ(Copy(MakeFile("other"), Args(0, 0, 0)).status, NFS4ERR_IO);
  EXPECT_EQ(ContentsOf("other"), "");
}

// The client's call must not last so long that the client takes it for lost.
TEST_F(CopyFromServerTest, ASlowCopyBeforeTheReplyIsAShortOne) {
  constexpr size_t kStep = 1 << 20;
  sources.contents.assign(8 * kStep, 'x');
  sources.before_read = [this](uint64_t) { server.clock.now += std::chrono::seconds(4); };
  const COPY4resok copied = CopyOk(MakeFile("to"), Args(0, 0, 0));
  EXPECT_EQ(copied.cr_response.wr_count, 3 * kStep);
  EXPECT_TRUE(copied.cr_requirements.cr_synchronous);
  EXPECT_EQ(AttributesOf("to")->size, 3 * kStep);
}

TEST_F(CopyFromServerTest, AnUnreachableSourceSendsTheClientBackToReadingAndWriting) {
  sources.reachable = false;
  EXPECT_EQ(Copy(MakeFile("to"), Args(0, 0, 0)).status, NFS4ERR_OFFLOAD_DENIED);
}

TEST_F(CopyFromServerTest, SpecialStateidsAreNoPermission) {
  COPY4args arguments = Args(0, 0, 0);
  const nfs_fh4 to = MakeFile("to");
  stateid4 bypass{.seqid = UINT32_MAX, .other = {}};
  bypass.other.fill(std::byte{0xff});
  for (const stateid4& special : {stateid4{}, bypass, stateid4{.seqid = 1, .other = {}}}) {
    arguments.ca_src_stateid = special;
    EXPECT_EQ(Copy(to, arguments).status, NFS4ERR_BAD_STATEID);
  }
}

TEST_F(CopyFromServerTest, ChecksTheTargetFirst) {
  COPY4args arguments = Args(0, 0, 0);
  EXPECT_EQ(Copy(Root(), arguments).status, NFS4ERR_WRONG_TYPE);
  arguments.ca_dst_stateid = kGiven;
  EXPECT_EQ(Copy(MakeFile("to"), arguments).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(sources.file, nfs_fh4()) << "the source was asked";
}

// RFC 7862 §15.2.3: PUTFH and SAVEFH of a foreign filehandle succeed. Nothing else takes it.
TEST_F(CopyFromServerTest, AForeignFilehandleIsGoodForCopyOnly) {
  const nfs_fh4 to = MakeFile("to");
  const auto status = [this](auto... more) { return Run(PutFh(kForeign), SaveFh(), more...).status; };
  EXPECT_EQ(Run(PutFh(kForeign)).status, NFS4ERR_BADHANDLE);
  EXPECT_EQ(Run(PutFh(kForeign), GetFh()).status, NFS4ERR_BADHANDLE);
  EXPECT_EQ(status(), NFS4_OK);
  EXPECT_EQ(status(GetFh()), NFS4ERR_BADHANDLE);
  EXPECT_EQ(status(RestoreFh()), NFS4ERR_BADHANDLE);
  EXPECT_EQ(status(PutRoot(), GetFh()), NFS4_OK);
  EXPECT_EQ(status(PutFh(to), Op(OP_CLONE, CLONE4args{})), NFS4ERR_BADHANDLE);
  EXPECT_EQ(status(PutRoot(), Op(OP_LINK, LINK4args{"new"})), NFS4ERR_BADHANDLE);
  COPY4args within = Args(0, 0, 0);
  within.ca_source_server.clear();
  EXPECT_EQ(status(PutFh(to), Op(OP_COPY, within)), NFS4ERR_BADHANDLE);
  // A later SAVEFH replaces it.
  EXPECT_EQ(status(PutRoot(), SaveFh(), RestoreFh()), NFS4_OK);
}

// Two servers may give handles of the same form: what this one would refer elsewhere is a file there.
TEST_F(CopyFromServerTest, AFilehandleThatIsAReferralHereMayBeAFileThere) {
  ExportOptions options;
  options.locations = {.referral = true, .list = *ParseLocations("/srv@one")};
  EXPECT_TRUE(server.exports.Add("/far", std::make_shared<AbsentFileSystem>(), std::move(options)));
  const nfs_fh4 far = ToFileHandle(server.exports.table().Resolve("/far").found->root());
  EXPECT_EQ(CopyOk(MakeFile("to"), Args(0, 0, 0), far).cr_response.wr_count, 10u);
  EXPECT_EQ(sources.file, far);
  EXPECT_EQ(Run(PutFh(far), SaveFh(), RestoreFh()).status, NFS4ERR_MOVED);
}

TEST_F(CopyFromServerTest, WithoutTheOptionNothingIsForeign) {
  Nfs4Server other;
  other.Export("/");
  SessionClient client(other, "client");
  EXPECT_EQ(client.Run(PutFh(kForeign), SaveFh()).status, NFS4ERR_BADHANDLE);
  EXPECT_EQ(client.Run(PutRoot(), Op(OP_COPY_NOTIFY, COPY_NOTIFY4args{})).status, NFS4ERR_NOTSUPP);
}

// The server stops while a copy is under way that has been answered.
class CopyAtTheStopTest : public CopyFromServerTest {
 protected:
  static constexpr size_t kStep = 1 << 20;

  CopyAtTheStopTest() {
    GiveBackChannel(server, Client().session());
    sources.contents.assign(40 * kStep, 'x');
  }
  // The server stops when the copy has come to this offset.
  void CopyUntilTheStop(uint64_t offset, bool source_is_lost = false) {
    sources.before_read = [this, offset, source_is_lost](uint64_t now) {
      if (now != offset) return;
      server.state.Run([](StateTables& state) { state.offloads.EndAll(); });
      if (source_is_lost) sources.readable = offset;
    };
    COPY4args arguments = Args(0, 0, 0);
    arguments.ca_synchronous = false;
    EXPECT_TRUE(CopyOk(MakeFile("to"), arguments).cr_response.wr_callback_id);
    EXPECT_EQ(server.state.Run([](StateTables& state) { return state.offloads.running(); }), 0u);
    EXPECT_EQ(sources.open, 0u);
  }
  void ExpectShortCopy(uint64_t count) {
    ASSERT_EQ(server.callbacks.copies.size(), 1u);
    const offload_info4& told = server.callbacks.copies.front().information;
    ASSERT_EQ(told.coa_status(), NFS4_OK);
    EXPECT_EQ(told.coa_resok4().wr_count, count);
    EXPECT_EQ(told.coa_resok4().wr_committed, FILE_SYNC4) << "the client would copy it again after the restart";
    EXPECT_EQ(AttributesOf("to")->size, count);
  }
};

TEST_F(CopyAtTheStopTest, IsAShortCopyWhoseDataAreStable) {
  CopyUntilTheStop(3 * kStep);
  ExpectShortCopy(4 * kStep);
}

TEST_F(CopyAtTheStopTest, IsAShortCopyIfTheServerClosesTheConnectionToTheSource) {
  CopyUntilTheStop(3 * kStep, true);
  ExpectShortCopy(3 * kStep);
}

TEST_F(CopyAtTheStopTest, IsACopyToTheEndIfItWasTheLastStep) {
  CopyUntilTheStop(39 * kStep);
  ExpectShortCopy(40 * kStep);
}

// A copy of no octets would mean the end of the source.
TEST_F(CopyAtTheStopTest, IsNotReportedIfNothingWasCopied) {
  CopyUntilTheStop(0, true);
  EXPECT_TRUE(server.callbacks.copies.empty());
}

TEST_F(CopyAtTheStopTest, IsAFailureIfTheDataCannotBeMadeStable) {
  server.faults->Add(
      {.operation = fs::faulty::Operation::kCommit, .effect = fs::faulty::FailWith(fs::Error::kNoSpace)});
  CopyUntilTheStop(3 * kStep);
  ASSERT_EQ(server.callbacks.copies.size(), 1u);
  const offload_info4& told = server.callbacks.copies.front().information;
  EXPECT_EQ(told.coa_status(), NFS4ERR_NOSPC);
  EXPECT_EQ(told.coa_bytes_copied(), 4 * kStep);
}

// The client may write to the file itself once the copy has ended for it.
TEST_F(CopyAtTheStopTest, WritesNothingThatWasReadBeforeTheCopyWasAbandoned) {
  sources.before_read = [this](uint64_t now) {
    if (now != 3 * kStep) return;
    server.state.Run([this](StateTables& state) { state.offloads.ForgetClient(Client().client()); });
  };
  COPY4args arguments = Args(0, 0, 0);
  arguments.ca_synchronous = false;
  EXPECT_TRUE(CopyOk(MakeFile("to"), arguments).cr_response.wr_callback_id);
  EXPECT_EQ(AttributesOf("to")->size, 3 * kStep);
  EXPECT_TRUE(server.callbacks.copies.empty());
  EXPECT_EQ(server.state.Run([](StateTables& state) { return state.offloads.running(); }), 0u);
}

class CopyNotifyTest : public CopyFromServerTest {
 protected:
  static COPY_NOTIFY4args ArgsOf(const stateid4& stateid) {
    return {.cna_src_stateid = stateid, .cna_destination_server = netloc4(NL4_NAME, utf8str_cis("target"))};
  }
  CompoundReply Notify(const stateid4& stateid) { return Run(PutFh(file_), Op(OP_COPY_NOTIFY, ArgsOf(stateid))); }
  stateid4 NotifyOk() {
    auto reply = Notify(open_);
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip().Next<COPY_NOTIFY4res>().resok4().cnr_stateid;
  }
  // The other server reads.
  nfsstat4 Read(const stateid4& stateid, const nfs_fh4& file) {
    return reader_.Run(PutFh(file), Op(OP_READ, READ4args{stateid, 0, 10})).status;
  }
  void SetUp() override {
    server.SetUser(1000);
    auto reply = Run(PutFh(file_), Opening(Client().client(), 0, "owner", kRead, 0, open_claim4(CLAIM_FH)));
    ASSERT_EQ(reply.status, NFS4_OK);
    open_ = reply.Skip().Next<OPEN4res>().resok4().stateid;
    server.SetUser(2000);
  }
  void AsOwner() { server.SetUser(1000); }
  void AsReader() { server.SetUser(2000); }

  // The user 1000 may read the file, and the user of the other server may not.
  nfs_fh4 MakeOwnFile(std::string_view name) {
    const nfs_fh4 made = MakeFile(name, "0123456789", 0400);
    fs::NewAttributes owner;
    owner.uid = 1000;
    const fs::Handle found = Now(tree.Lookup(AsRoot(), tree.Root(), name)).result->handle;
    EXPECT_TRUE(Now(tree.SetAttributes(AsRoot(), found, owner, {})).result);
    return made;
  }
  const nfs_fh4 file_ = MakeOwnFile("file");
  const nfs_fh4 other_ = MakeOwnFile("other");
  SessionClient reader_{server, "another server"};
  stateid4 open_{};
};

TEST_F(CopyNotifyTest, AnotherServerReadsTheFileAsTheUser) {
  AsOwner();
  const stateid4 given = NotifyOk();
  AsReader();
  EXPECT_EQ(Read(given, file_), NFS4_OK);
  EXPECT_EQ(reader_.Run(PutFh(file_), Op(OP_READ_PLUS, READ_PLUS4args{given, 0, 10})).status, NFS4_OK);
  EXPECT_EQ(Read(given, other_), NFS4ERR_PARTNER_NO_AUTH);
  EXPECT_EQ(Read(stateid4{}, file_), NFS4ERR_ACCESS);
  // It does nothing else as the user.
  EXPECT_EQ(reader_.Run(PutFh(file_), Op(OP_READ, READ4args{given, 0, 10}), Op(OP_READ, READ4args{{}, 0, 10})).status,
            NFS4ERR_ACCESS);
  EXPECT_NE(reader_.Run(PutFh(file_), Op(OP_WRITE, WRITE4args{given, 0, FILE_SYNC4, {}})).status, NFS4_OK);
}

TEST_F(CopyNotifyTest, TheSourceIsReachedAtTheAddressThatTheClientUses) {
  AsOwner();
  server.peer.local = {asio::ip::make_address("192.0.2.7"), 20049};
  auto reply = Notify(open_);
  const COPY_NOTIFY4resok result = reply.Skip().Next<COPY_NOTIFY4res>().resok4();
  ASSERT_EQ(result.cnr_source_server.size(), 1u);
  EXPECT_EQ(result.cnr_source_server[0].nl_addr(), (netaddr4{"tcp", "192.0.2.7.8.1"}));
  EXPECT_EQ(result.cnr_lease_time.seconds, 90);
}

TEST_F(CopyNotifyTest, ExpiresBeforeReadingBegins) {
  AsOwner();
  const stateid4 given = NotifyOk();
  server.clock.now += std::chrono::seconds(90);
  EXPECT_EQ(Read(given, file_), NFS4ERR_PARTNER_NO_AUTH);
}

TEST_F(CopyNotifyTest, EndsWithTheOpen) {
  AsOwner();
  const stateid4 given = NotifyOk();
  EXPECT_EQ(Read(given, file_), NFS4_OK);
  EXPECT_EQ(Run(PutFh(file_), Op(OP_CLOSE, CLOSE4args{0, open_})).status, NFS4_OK);
  EXPECT_EQ(Read(given, file_), NFS4ERR_BAD_STATEID);
}

TEST_F(CopyNotifyTest, EndsWhenTheClientCancelsIt) {
  AsOwner();
  const stateid4 given = NotifyOk();
  EXPECT_EQ(reader_.Run(PutFh(file_), Op(OP_OFFLOAD_CANCEL, OFFLOAD_CANCEL4args{given})).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Run(PutFh(file_), Op(OP_OFFLOAD_CANCEL, OFFLOAD_CANCEL4args{given})).status, NFS4_OK);
  EXPECT_EQ(Read(given, file_), NFS4ERR_PARTNER_NO_AUTH);
}

TEST_F(CopyNotifyTest, EndsWithTheClient) {
  AsOwner();
  const stateid4 given = NotifyOk();
  server.state.Run([&](StateTables& state) { state.End(Client().client(), server.clock.now); });
  EXPECT_EQ(Read(given, file_), NFS4ERR_PARTNER_NO_AUTH);
}

TEST_F(CopyNotifyTest, AClientWithTooManyPermissionsNeedNotWait) {
  AsOwner();
  COPY_NOTIFY4args arguments = ArgsOf(open_);
  const auto notify = [&](size_t number) {
    const std::string name = std::to_string(number);
    arguments.cna_destination_server = netloc4(NL4_NAME, utf8str_cis(name));
    return Run(PutFh(file_), Op(OP_COPY_NOTIFY, arguments)).status;
  };
  const size_t most = CopyNotices::Limits().per_client;
  for (size_t i = 0; i < most; ++i) ASSERT_EQ(notify(i), NFS4_OK);
  EXPECT_EQ(notify(most), NFS4ERR_PARTNER_NO_AUTH);
  EXPECT_EQ(notify(0), NFS4_OK) << "renews a permission";
}

TEST_F(CopyNotifyTest, NeedsAnOpenALockOrADelegation) {
  AsOwner();
  EXPECT_EQ(Notify(stateid4{}).status, NFS4ERR_BAD_STATEID);
  EXPECT_EQ(Notify(kGiven).status, NFS4ERR_BAD_STATEID);
  const auto other = Run(PutFh(other_), Op(OP_COPY_NOTIFY, ArgsOf(open_))).status;
  EXPECT_EQ(other, NFS4ERR_BAD_STATEID);
  const std::string name(2000, 'n');
  COPY_NOTIFY4args long_name = ArgsOf(open_);
  long_name.cna_destination_server = netloc4(NL4_NAME, utf8str_cis(name));
  EXPECT_EQ(Run(PutFh(file_), Op(OP_COPY_NOTIFY, long_name)).status, NFS4ERR_INVAL);
}

}  // namespace
}  // namespace penstock::nfs::v4
