// NFSv3 as a program: versions, procedures, flavors, admission, and duplicate calls.
#include <set>

#include "base/address.h"
#include "nfs/v3/nfs_test.h"
#include "rpc/tls/certificate.h"

namespace penstock::nfs::v3 {
namespace {

class ProgramTest : public NfsTest {
 protected:
  Answer AskRaw(uint32_t version, uint32_t procedure, const GETATTR3args& arguments) {
    return memory.Ask(memory.Encode(rpc::Xid(1), NFS_PROGRAM, version, procedure, arguments));
  }
};

TEST_F(ProgramTest, NullWorksForEveryCaller) {
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC3_NULL>({})).succeeded());
  memory.SetNoIdentity();
  EXPECT_TRUE(memory.Ask(memory.EncodeCall<NFSPROC3_NULL>({})).succeeded());
}

TEST_F(ProgramTest, RejectsOtherVersionsAndProcedures) {
  EXPECT_EQ(AskRaw(2, 1, {root}).accept_status(), rpcmsg::PROG_MISMATCH);
  EXPECT_EQ(AskRaw(4, 1, {root}).accept_status(), rpcmsg::PROG_MISMATCH);
  EXPECT_EQ(AskRaw(3, 22, {root}).accept_status(), rpcmsg::PROC_UNAVAIL);
}

TEST_F(ProgramTest, AnswersGarbageArgsToMalformedArguments) {
  EXPECT_EQ(AskRaw(3, NFSPROC3_NULL::kNumber, {root}).accept_status(), rpcmsg::GARBAGE_ARGS);    // too many
  EXPECT_EQ(AskRaw(3, NFSPROC3_LOOKUP::kNumber, {root}).accept_status(), rpcmsg::GARBAGE_ARGS);  // too few
  EXPECT_EQ(AskRaw(3, NFSPROC3_READDIR::kNumber, {root}).accept_status(), rpcmsg::GARBAGE_ARGS);
  rpc::Message bad_enum = memory.Encode(rpc::Xid(1), NFS_PROGRAM, NFS_V3, NFSPROC3_CREATE::kNumber,
                                        symlinkdata3{{}, xdr::Payload<>::Borrowed("not a CREATE")});
  EXPECT_EQ(memory.Ask(std::move(bad_enum)).accept_status(), rpcmsg::GARBAGE_ARGS);
}

TEST_F(ProgramTest, AuthNoneRunsAsAnonymous) {
  memory.Export("/open", {.squash = Squash::kNone, .security = {SecurityFlavor::kSys, SecurityFlavor::kNone}});
  const nfs_fh3 open = memory.RootOf("/open");
  const nfs_fh3 file = MakeFileIn(open, "file", "secret", 0600);
  const nfs_fh3 open_file = MakeFileIn(open, "open", "known", 0644);
  memory.SetNoIdentity();
  EXPECT_EQ(Call<NFSPROC3_READ>({file, 0, 10}).status(), NFS3ERR_ACCES);
  EXPECT_EQ(Call<NFSPROC3_READ>({open_file, 0, 10}).status(), NFS3_OK);
}

TEST_F(ProgramTest, AnswersTooWeakToAFlavorThatTheExportRefuses) {
  memory.SetNoIdentity();
  const Answer list = memory.Ask(memory.EncodeCall<NFSPROC3_READDIR>({root, 0, {}, 4096}));
  EXPECT_TRUE(list.header.body.is_rreply());
  EXPECT_EQ(list.auth_status(), rpcmsg::AUTH_TOOWEAK);
  memory.SetUser(1000);
  EXPECT_EQ(Call<NFSPROC3_READDIR>({root, 0, {}, 4096}).status(), NFS3_OK);
}

TEST_F(ProgramTest, AnswersTooWeakToAGssServiceThatTheExportRefuses) {
  memory.Export("/sealed", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p}});
  const nfs_fh3 sealed = memory.RootOf("/sealed");
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000);
  const auto list = [&] { return memory.Ask(memory.EncodeCall<NFSPROC3_READDIR>({sealed, 0, {}, 4096})); };
  EXPECT_EQ(list().auth_status(), rpcmsg::AUTH_TOOWEAK);  // by root, under AUTH_SYS
  memory.SetInitiator(alice, rpc::GssService::kNone);
  EXPECT_EQ(list().auth_status(), rpcmsg::AUTH_TOOWEAK);
  memory.SetInitiator(alice, rpc::GssService::kIntegrity);
  EXPECT_TRUE(list().succeeded());
  memory.SetInitiator(alice, rpc::GssService::kPrivacy);
  EXPECT_TRUE(list().succeeded());
}

TEST_F(ProgramTest, AnswersTooWeakToCcmUnlessTheExportTakesIt) {
  memory.Export("/sealed", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5, SecurityFlavor::kKrb5p}});
  memory.Export("/channel", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5p, SecurityFlavor::kCcm}});
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000, rpc::GssMechanism::kConjunction);
  for (const auto service : {rpc::GssService::kNone, rpc::GssService::kPrivacy}) {
    memory.SetInitiator(alice, service);
    const auto list = [&](const nfs_fh3& directory) {
      return memory.Ask(memory.EncodeCall<NFSPROC3_READDIR>({directory, 0, {}, 4096}));
    };
    EXPECT_EQ(list(memory.RootOf("/sealed")).auth_status(), rpcmsg::AUTH_TOOWEAK);
    EXPECT_TRUE(list(memory.RootOf("/channel")).succeeded());
  }
}

// RFC 2623 §2.3.2
TEST_F(ProgramTest, AcceptsAnyFlavorForTheCallsOfAMount) {
  memory.Export("/sealed", {.security = {SecurityFlavor::kKrb5p}});
  const nfs_fh3 sealed = memory.RootOf("/sealed");
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000);
  EXPECT_EQ(Call<NFSPROC3_FSINFO>({sealed}).status(), NFS3_OK);
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({sealed}).status(), NFS3_OK);
  const auto access = memory.Ask(memory.EncodeCall<NFSPROC3_ACCESS>({sealed, ACCESS3_READ}));
  EXPECT_EQ(access.auth_status(), rpcmsg::AUTH_TOOWEAK);
}

TEST_F(ProgramTest, RefusesOtherFlavorsBelowTheRoot) {
  memory.Export("/sealed", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5p}});
  const TestInitiator root_user("root@EXAMPLE.ORG", 0);
  memory.SetInitiator(root_user, rpc::GssService::kPrivacy);
  const nfs_fh3 file = MakeFileIn(memory.RootOf("/sealed"), "file");
  memory.SetUser(0);
  EXPECT_EQ(memory.Ask(memory.EncodeCall<NFSPROC3_GETATTR>({file})).auth_status(), rpcmsg::AUTH_TOOWEAK);
  EXPECT_EQ(memory.Ask(memory.EncodeCall<NFSPROC3_FSINFO>({file})).auth_status(), rpcmsg::AUTH_TOOWEAK);
}

TEST_F(ProgramTest, SquashesRootWithRootSquash) {
  memory.Export("/squashed", {.squash = Squash::kRoot});
  const nfs_fh3 squashed = memory.RootOf("/squashed");
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{squashed, "name"}, {}}).status()), NFS3ERR_ACCES);
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{root, "name"}, {}}).status()), NFS3_OK);
}

TEST_F(ProgramTest, AnswersStaleToAHostThatIsNotAdmitted) {
  memory.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  const nfs_fh3 inside = memory.RootOf("/inside");
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({inside}).status(), NFS3ERR_STALE);
  memory.peer.address = {asio::ip::make_address("10.1.2.3"), 700};
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({inside}).status(), NFS3_OK);
}

TEST_F(ProgramTest, ExecutesADuplicateOnce) {
  MakeFile("file");
  const REMOVE3args arguments{{root, "file"}};
  const auto remove = [&] {
    return memory.Ask(memory.Encode(rpc::Xid(77), NFS_PROGRAM, NFS_V3, NFSPROC3_REMOVE::kNumber, arguments));
  };
  const Answer first = remove();
  memory.peer.address = {memory.peer.address.address(), 701};  // another connection
  memory.peer.connection = 2;
  const Answer second = remove();
  EXPECT_TRUE(Equal(first.message.stream.bytes(), second.message.stream.bytes()));
  EXPECT_EQ(memory.ResultsOf<NFSPROC3_REMOVE>(second).status(), NFS3_OK);
  EXPECT_EQ(Call<NFSPROC3_REMOVE>(arguments).status(), NFS3ERR_NOENT);  // a new call
}

// RFC 8166 §6.1
TEST_F(ProgramTest, RejectsACallWithAReducedItemThatIsNotDdpEligible) {
  MakeFile("file");
  rpc::Message call = memory.EncodeCall<NFSPROC3_REMOVE>({{root, "file"}});
  const size_t at = call.stream.size() - 4;
  call.items.push_back({.offset = at, .data = call.stream.Sub(at, 4)});
  call.stream = call.stream.Sub(0, at);
  EXPECT_EQ(memory.Ask(std::move(call)).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
  // An item after all arguments.
  call = memory.EncodeCall<NFSPROC3_REMOVE>({{root, "file"}});
  call.items.push_back({.offset = call.stream.size(), .data = Slice::Borrowed(AsBytes("more"))});
  EXPECT_EQ(memory.Ask(std::move(call)).accept_status(), rpc::AcceptStatus::GARBAGE_ARGS);
  EXPECT_EQ(Call<NFSPROC3_LOOKUP>({{root, "file"}}).status(), NFS3_OK);
}

TEST_F(ProgramTest, CachesOnlyNonIdempotentProcedures) {
  using P = NFS_V3_procedure;
  const std::set<P> remembered{P::NFSPROC3_SETATTR, P::NFSPROC3_CREATE, P::NFSPROC3_MKDIR,
                               P::NFSPROC3_SYMLINK, P::NFSPROC3_MKNOD,  P::NFSPROC3_REMOVE,
                               P::NFSPROC3_RMDIR,   P::NFSPROC3_RENAME, P::NFSPROC3_LINK};
  for (uint32_t procedure = 0; procedure <= NFSPROC3_COMMIT::kNumber; ++procedure) {
    const rpc::Peer peer;
    rpc::CallContext context{.peer = peer, .version = NFS_V3, .procedure = procedure};
    const xdr::Message none;
    xdr::Decoder arguments(none);
    const rpc::Keep keep = memory.nfs.Classify(context, arguments).keep;
    EXPECT_EQ(keep == rpc::Keep::kChange, remembered.contains(static_cast<P>(procedure)))
        << XdrName(static_cast<P>(procedure));
    EXPECT_EQ(keep == rpc::Keep::kWrite, procedure == NFSPROC3_WRITE::kNumber) << XdrName(static_cast<P>(procedure));
  }
}

// ---- protection by TLS ----

class ProtectionTest : public testing::Test {
 protected:
  rpc::AuthStatus StatusOfFsinfo(std::string_view path) {
    const Answer answer = server.Ask(server.EncodeCall<NFSPROC3_FSINFO>({server.RootOf(path)}));
    return answer.header.body.is_areply() ? rpc::AuthStatus::AUTH_OK : answer.auth_status();
  }
  static std::shared_ptr<const rpc::tls::Certificate> With(std::vector<std::string> hosts, const char* address) {
    rpc::tls::Certificate certificate;
    certificate.hosts = std::move(hosts);
    certificate.addresses = {asio::ip::make_address(address)};
    return std::make_shared<const rpc::tls::Certificate>(std::move(certificate));
  }
  TestServer server;
};

TEST_F(ProtectionTest, DeniesCallsOverConnectionsWithoutTheExportsProtection) {
  server.Export("/tls", {.protections = *Protections::Parse("tls")});
  server.Export("/mtls", {.protections = *Protections::Parse("mtls")});
  server.Export("/none", {.protections = *Protections::Parse("none")});
  server.Export("/any");
  using enum rpc::AuthStatus;
  const auto expect = [&](rpc::AuthStatus tls, rpc::AuthStatus mtls, rpc::AuthStatus none) {
    EXPECT_EQ(StatusOfFsinfo("/tls"), tls);
    EXPECT_EQ(StatusOfFsinfo("/mtls"), mtls);
    EXPECT_EQ(StatusOfFsinfo("/none"), none);
    EXPECT_EQ(StatusOfFsinfo("/any"), AUTH_OK);
  };
  expect(AUTH_TOOWEAK, AUTH_TOOWEAK, AUTH_OK);
  server.peer.transport = rpc::TransportKind::kRdma;
  expect(AUTH_TOOWEAK, AUTH_TOOWEAK, AUTH_OK);
  server.peer.transport = rpc::TransportKind::kTcp;
  server.peer.protection = rpc::Protection::kTls;
  expect(AUTH_OK, AUTH_TOOWEAK, AUTH_TOOWEAK);
  server.peer.protection = rpc::Protection::kMutualTls;
  expect(AUTH_OK, AUTH_OK, AUTH_TOOWEAK);
}

TEST_F(ProtectionTest, ComparesTheNamesOfCertificates) {
  server.Export("/named", {.protections = *Protections::Parse("mtls"), .certificates = {"a.example", "192.0.2.7"}});
  server.Export("/address", {.protections = *Protections::Parse("mtls"), .certificate_of_address = true});
  using enum rpc::AuthStatus;
  server.peer.protection = rpc::Protection::kMutualTls;
  server.peer.certificate = With({"A.EXAMPLE"}, "192.0.2.1");
  EXPECT_EQ(StatusOfFsinfo("/named"), AUTH_OK);
  EXPECT_EQ(StatusOfFsinfo("/address"), AUTH_OK);
  server.peer.certificate = With({"b.example"}, "192.0.2.7");
  EXPECT_EQ(StatusOfFsinfo("/named"), AUTH_OK);
  EXPECT_EQ(StatusOfFsinfo("/address"), AUTH_TOOWEAK);
  server.peer.certificate = With({"b.example"}, "192.0.2.8");
  EXPECT_EQ(StatusOfFsinfo("/named"), AUTH_TOOWEAK);
  server.peer.certificate = nullptr;
  EXPECT_EQ(StatusOfFsinfo("/named"), AUTH_TOOWEAK);
}

}  // namespace
}  // namespace penstock::nfs::v3
