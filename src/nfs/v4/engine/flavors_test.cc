// Tests which operations check the security flavor of a call (RFC 8881 §2.6.3.1), and which errors they return.
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

using enum SecurityFlavor;
using testing::ElementsAre;

const TestInitiator& Alice() {
  static const TestInitiator alice("alice@EXAMPLE.ORG", 1000);
  return alice;
}

// The export "/" takes AUTH_SYS. The export "/strict" takes Kerberos with privacy, and contains a file "file".
class FlavorTest : public testing::Test {
 protected:
  FlavorTest() {
    fs::memory::FileSystem& root = server.Export("/", {.squash = Squash::kNone});
    fs::memory::FileSystem& tree = server.Export("/strict", {.squash = Squash::kNone, .security = {kKrb5p}});
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    EXPECT_TRUE(Now(root.MakeDirectory(context, root.Root(), "strict", {})).result);
    fs::CreateHow how;
    how.attributes.mode = 0666;
    const auto made = Now(tree.Create(context, tree.Root(), "file", how));
    strict = ToFileHandle(server.exports.table().Resolve("/strict").found->root());
    file = ToFileHandle({server.exports.table().Resolve("/strict").found->id(), made.result->handle});
  }
  template <class... Arguments>
  nfsstat4 StatusOf(const Sent<Arguments>&... operations) {
    return server.Run(0, operations...).status;
  }
  auto OpenOf(open_claim4 claim) { return Opening(ClientId(7), 1, "owner", kRead, 0, std::move(claim)); }

  Nfs4Server server;
  nfs_fh4 strict, file;
};

TEST_F(FlavorTest, RefusesAHandleOfAnExportThatDemandsAStrongerFlavor) {
  EXPECT_EQ(StatusOf(PutFh(strict), GetFh()), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(strict), GetAttr({FATTR4_TYPE})), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(file), Reading(kAnonymous)), NFS4ERR_WRONGSEC);
}

TEST_F(FlavorTest, TreatsEachServiceOfRpcsecGssAsAFlavor) {
  for (const auto service : {rpc::GssService::kNone, rpc::GssService::kIntegrity}) {
    server.SetInitiator(Alice(), service);
    EXPECT_EQ(StatusOf(PutFh(strict), GetFh()), NFS4ERR_WRONGSEC);
  }
  server.SetInitiator(Alice(), rpc::GssService::kPrivacy);
  EXPECT_EQ(StatusOf(PutFh(strict), GetFh()), NFS4_OK);
  EXPECT_EQ(StatusOf(PutFh(file), Reading(kAnonymous)), NFS4_OK);
  EXPECT_EQ(StatusOf(PutRoot(), GetFh()), NFS4ERR_WRONGSEC);  // "/" takes AUTH_SYS
}

TEST_F(FlavorTest, RefusesCcmUnlessTheExportTakesIt) {
  server.Export("/channel", {.squash = Squash::kNone, .security = {kKrb5p, kCcm}});
  const nfs_fh4 channel = ToFileHandle(server.exports.table().Resolve("/channel").found->root());
  const TestInitiator alice("alice@EXAMPLE.ORG", 1000, rpc::GssMechanism::kConjunction);
  for (const auto service : {rpc::GssService::kNone, rpc::GssService::kIntegrity, rpc::GssService::kPrivacy}) {
    server.SetInitiator(alice, service);
    EXPECT_EQ(StatusOf(PutFh(channel), GetFh()), NFS4_OK);
    EXPECT_EQ(StatusOf(PutFh(strict), GetFh()), NFS4ERR_WRONGSEC);
  }
}

TEST_F(FlavorTest, IgnoresTheFlavorIfTheHandleIsReplacedOrSecinfoFollows) {
  EXPECT_EQ(StatusOf(PutFh(strict), PutRoot()), NFS4_OK);
  EXPECT_EQ(StatusOf(PutFh(strict), Op(OP_SECINFO, SECINFO4args{"x"})), NFS4ERR_NOENT);
}

// RFC 8881 §2.6.3.1.1.6
TEST_F(FlavorTest, IgnoresTheFlavorIfNoOperationFollows) { EXPECT_EQ(StatusOf(PutFh(strict)), NFS4_OK); }

// RFC 8881 §2.6.3.1.1.1
TEST_F(FlavorTest, LooksPastSavefhToTheNextOperation) {
  EXPECT_EQ(StatusOf(PutFh(strict), SaveFh()), NFS4_OK);
  EXPECT_EQ(StatusOf(PutFh(strict), SaveFh(), PutRoot()), NFS4_OK);
  EXPECT_EQ(StatusOf(PutFh(strict), SaveFh(), GetFh()), NFS4ERR_WRONGSEC);
  EXPECT_EQ(server.Run(0, PutFh(strict), SaveFh(), SaveFh(), GetFh()).count, 1u);
}

TEST_F(FlavorTest, RestorefhChecksTheFlavorOfTheSavedHandle) {
  auto reply = server.Run(0, PutFh(strict), SaveFh(), PutRoot(), RestoreFh(), GetFh());
  EXPECT_EQ(reply.status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(reply.count, 4u);
}

// RFC 8881 §2.6.3.1.1.3
TEST_F(FlavorTest, LookupChecksTheFlavorOfTheObjectFound) {
  auto down = server.Run(0, PutRoot(), LookUp("strict"), GetFh());
  EXPECT_EQ(down.status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(down.count, 2u);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("strict")).status, NFS4ERR_WRONGSEC);
  auto within = server.Run(0, PutFh(strict), LookUp("file"));
  EXPECT_EQ(within.status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(within.count, 2u);
}

// RFC 8881 §2.6.3.1.1.4
TEST_F(FlavorTest, LookuppChecksTheFlavorOfTheParent) {
  EXPECT_EQ(StatusOf(PutFh(strict), LookUpParent(), GetFh()), NFS4_OK);
  server.SetInitiator(Alice(), rpc::GssService::kPrivacy);
  auto reply = server.Run(0, PutFh(strict), LookUpParent(), GetFh());
  EXPECT_EQ(reply.status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(reply.count, 2u);
}

TEST_F(FlavorTest, OpenByNameChecksTheFlavorItself) {
  SessionClient client(server, "client");
  const auto open = [&](open_claim4 claim) { return Opening(client.client(), 0, "owner", kRead, 0, std::move(claim)); };
  EXPECT_EQ(client.Run(PutFh(strict), open(Named("file"))).count, 3u);
  EXPECT_EQ(client.Run(PutFh(strict), open(Named("file"))).status, NFS4ERR_WRONGSEC);
  const auto by_handle = client.Run(PutFh(file), open(open_claim4(CLAIM_FH)));
  EXPECT_EQ(by_handle.status, NFS4ERR_WRONGSEC);
  EXPECT_EQ(by_handle.count, 2u);
}

// In minor version 0, SECINFO does not change the current filehandle.
TEST_F(FlavorTest, RefusesOtherOperationsOnAHandleThatWasPutForSecinfo) {
  server.SetInitiator(Alice(), rpc::GssService::kPrivacy);
  server.SetUser(1000);
  const auto flavors = Op(OP_SECINFO, SECINFO4args{"file"});
  EXPECT_EQ(StatusOf(PutFh(strict), flavors, GetFh()), NFS4ERR_ACCESS);
  EXPECT_EQ(StatusOf(PutFh(strict), flavors, GetAttr({FATTR4_SIZE})), NFS4ERR_ACCESS);
  EXPECT_EQ(StatusOf(PutFh(strict), flavors, LookUp("file")), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(strict), flavors, PutRoot(), GetFh()), NFS4_OK);
}

// An idle Linux client (6.1) renews its lease only if its machine can read the lease time.
TEST_F(FlavorTest, ReturnsOnlyTheLeaseTimeInAnyFlavor) {
  EXPECT_EQ(StatusOf(PutFh(strict), GetAttr({FATTR4_LEASE_TIME})), NFS4_OK);
  EXPECT_EQ(StatusOf(PutFh(strict), GetAttr({FATTR4_LEASE_TIME, FATTR4_FILEID})), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(strict), GetAttr({FATTR4_LEASE_TIME}), GetAttr({FATTR4_FILEID})), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(strict), GetAttr({FATTR4_LEASE_TIME}), GetFh()), NFS4ERR_WRONGSEC);
}

TEST_F(FlavorTest, CopyRefusesASavedHandleOfAnotherFlavor) {
  fs::FileSystem& tree = server.exports.table().Resolve("/").found->file_system();
  fs::CreateHow how;
  how.attributes.mode = 0666;
  const auto made = Now(tree.Create({.credentials = {.uid = 0, .gid = 0, .groups = {}}}, tree.Root(), "to", how));
  const nfs_fh4 to = ToFileHandle({server.exports.table().Resolve("/").found->id(), made.result->handle});
  SessionClient client(server, "client");
  COPY4args copy{};
  copy.ca_synchronous = true;
  EXPECT_EQ(client.Run(PutFh(file), SaveFh(), PutFh(to), Op(OP_COPY, copy)).status, NFS4ERR_ACCESS);
  EXPECT_EQ(client.Run(PutFh(file), SaveFh(), PutFh(to), Op(OP_CLONE, CLONE4args{})).status, NFS4ERR_ACCESS);
}

// RFC 8881 §2.6.3.1.2
TEST_F(FlavorTest, RefusesToLinkOrRenameIntoAnotherExport) {
  EXPECT_EQ(StatusOf(PutFh(file), SaveFh(), PutRoot(), Op(OP_LINK, LINK4args{"link"})), NFS4ERR_XDEV);
  EXPECT_EQ(StatusOf(PutFh(strict), SaveFh(), PutRoot(), Op(OP_RENAME, RENAME4args{"file", "file"})), NFS4ERR_XDEV);
}

// RFC 8881 §18.29.4
TEST_F(FlavorTest, ReaddirReportsWrongsecAsRdattrErrorOfAnEntry) {
  const AttributeSet wanted{FATTR4_RDATTR_ERROR, FATTR4_SIZE};
  auto reply = server.Run(0, PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, wanted.ToBitmap()}));
  ASSERT_EQ(reply.status, NFS4_OK);
  const auto read = reply.Skip().Next<READDIR4res>();
  ASSERT_EQ(read.resok4().reply.entries.size(), 1u);
  const fattr4& attributes = read.resok4().reply.entries[0].attrs;
  EXPECT_EQ(AttributeSet(attributes.attrmask), AttributeSet{FATTR4_RDATTR_ERROR});
  EXPECT_EQ(LoadBig<uint32_t>(attributes.attr_vals.data()), static_cast<uint32_t>(NFS4ERR_WRONGSEC));
}

TEST_F(FlavorTest, ReaddirSucceedsWithEntriesOfOtherFlavors) {
  const AttributeSet wanted{FATTR4_SIZE};
  EXPECT_EQ(StatusOf(PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, wanted.ToBitmap()})), NFS4_OK);
}

// ---- protection by TLS ----

// The export "/" takes every connection, "/sealed" only those with TLS.
class ProtectionTest : public testing::Test {
 protected:
  ProtectionTest() {
    server.Export("/open", {.squash = Squash::kNone});
    server.Export("/sealed", {.squash = Squash::kNone, .protections = *Protections::Parse("tls")});
    sealed = ToFileHandle(server.exports.table().Resolve("/sealed").found->root());
  }
  template <class... Arguments>
  nfsstat4 StatusOf(const Sent<Arguments>&... operations) {
    return server.Run(0, operations...).status;
  }
  Nfs4Server server;
  nfs_fh4 sealed;
};

TEST_F(ProtectionTest, RefusesAnExportWithTlsOverPlainConnections) {
  EXPECT_EQ(StatusOf(PutFh(sealed), GetFh()), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutFh(sealed), GetAttr({FATTR4_TYPE})), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutRoot(), LookUp("sealed")), NFS4ERR_WRONGSEC);
  EXPECT_EQ(StatusOf(PutRoot(), LookUp("open"), GetFh()), NFS4_OK);
  server.peer.transport = rpc::TransportKind::kRdma;
  EXPECT_EQ(StatusOf(PutFh(sealed), GetFh()), NFS4ERR_WRONGSEC);
}

TEST_F(ProtectionTest, AdmitsConnectionsWithTls) {
  for (const auto protection : {rpc::Protection::kTls, rpc::Protection::kMutualTls}) {
    server.peer.protection = protection;
    EXPECT_EQ(StatusOf(PutFh(sealed), GetFh()), NFS4_OK);
    EXPECT_EQ(StatusOf(PutRoot(), LookUp("sealed"), GetFh()), NFS4_OK);
  }
}

TEST_F(ProtectionTest, ReaddirReportsWrongsecForAnExportWithTls) {
  const AttributeSet wanted{FATTR4_RDATTR_ERROR, FATTR4_SIZE};
  auto reply = server.Run(0, PutRoot(), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, wanted.ToBitmap()}));
  ASSERT_EQ(reply.status, NFS4_OK);
  const auto read = reply.Skip().Next<READDIR4res>();
  size_t refused = 0;
  for (const entry4& entry : read.resok4().reply.entries) {
    if (AttributeSet(entry.attrs.attrmask) == AttributeSet{FATTR4_RDATTR_ERROR}) {
      EXPECT_EQ(entry.name, "sealed");
      ++refused;
    }
  }
  EXPECT_EQ(refused, 1u);
}

TEST_F(ProtectionTest, SecinfoStaysPossible) {
  EXPECT_EQ(StatusOf(PutRoot(), Op(OP_SECINFO, SECINFO4args{"sealed"})), NFS4_OK);
}

TEST(ProtectionOfPseudoDirectories, IsThatOfTheExportsBelow) {
  Nfs4Server server;
  server.Export("/a/sealed", {.squash = Squash::kNone, .protections = *Protections::Parse("mtls")});
  EXPECT_EQ(server.Run(0, PutRoot(), GetFh()).status, NFS4ERR_WRONGSEC);
  server.peer.protection = rpc::Protection::kTls;
  EXPECT_EQ(server.Run(0, PutRoot(), GetFh()).status, NFS4ERR_WRONGSEC);
  server.peer.protection = rpc::Protection::kMutualTls;
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("a"), LookUp("sealed"), GetFh()).status, NFS4_OK);
}

// ---- results of SECINFO ----

// 2.25.117384473133603138457143322886369148965
constexpr std::string_view kCcmOid = "\x69\x81\xb0\xcf\xb6\xd6\xf8\xad\xa2\x8e\xb5\x8f\xf7\x8b\xa8\xeb\xc7\xee\x80\x25";

// "krb5i", "sys" ...
std::vector<std::string> Named(const SECINFO4resok& flavors) {
  std::vector<std::string> names;
  for (const secinfo4& each : flavors) {
    if (!each.is_flavor_info()) {
      names.emplace_back(each.flavor() == rpcmsg::AUTH_SYS ? "sys" : "none");
      continue;
    }
    const rpcsec_gss_info& information = each.flavor_info();
    EXPECT_EQ(information.qop, 0u);
    const auto service = static_cast<size_t>(information.service);
    if (AsText(information.oid.bytes()) == kCcmOid) {
      constexpr const char* kServices[] = {"", "ccm with none", "ccm with integrity", "ccm with privacy"};
      names.emplace_back(kServices[service]);
      continue;
    }
    EXPECT_EQ(AsText(information.oid.bytes()), "\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
    constexpr const char* kServices[] = {"", "krb5", "krb5i", "krb5p"};
    names.emplace_back(kServices[service]);
  }
  return names;
}

class SecinfoTest : public testing::Test {
 protected:
  std::vector<std::string> OfRoot() {
    SessionClient client(server, "client");
    auto reply = client.Run(PutRoot(), Op(OP_SECINFO_NO_NAME, SECINFO_STYLE4_CURRENT_FH));
    EXPECT_EQ(reply.status, NFS4_OK);
    return Named(reply.Skip().Next<SECINFO_NO_NAME4res>().resok4());
  }
  std::vector<std::string> Of(std::string_view name) {
    auto reply = server.Run(0, PutRoot(), Op(OP_SECINFO, SECINFO4args{name}));
    EXPECT_EQ(reply.status, NFS4_OK);
    return Named(reply.Skip().Next<SECINFO4res>().resok4());
  }
  static ExportOptions With(SecurityFlavors flavors) { return {.squash = Squash::kNone, .security = flavors}; }

  Nfs4Server server;
};

TEST_F(SecinfoTest, ListsTheFlavorsOfAnExportInItsOrder) {
  server.Export("/", With({kKrb5p, kKrb5i, kKrb5, kSys, kNone}));
  EXPECT_THAT(OfRoot(), ElementsAre("krb5p", "krb5i", "krb5", "sys", "none"));
}

TEST_F(SecinfoTest, ListsCcmWithEachServiceInItsPlace) {
  server.Export("/", With({kKrb5p, kCcm, kSys}));
  EXPECT_THAT(OfRoot(), ElementsAre("krb5p", "ccm with none", "ccm with integrity", "ccm with privacy", "sys"));
}

TEST_F(SecinfoTest, ListsTheFlavorsOfTheExportThatANameLeadsTo) {
  server.Export("/open", With({kSys}));
  server.Export("/sealed", With({kKrb5p, kKrb5i}));
  EXPECT_THAT(Of("open"), ElementsAre("sys"));
  EXPECT_THAT(Of("sealed"), ElementsAre("krb5p", "krb5i"));
}

TEST_F(SecinfoTest, ListsTheFlavorsOfAllExportsBelowAPseudoDirectory) {
  server.Export("/a/open", With({kSys}));
  server.Export("/b/sealed", With({kKrb5p, kSys}));
  EXPECT_THAT(OfRoot(), testing::UnorderedElementsAre("sys", "krb5p"));
  EXPECT_THAT(Of("a"), ElementsAre("sys"));
  EXPECT_THAT(Of("b"), ElementsAre("krb5p", "sys"));
}

TEST_F(SecinfoTest, OmitsTheFlavorsOfExportsThatDoNotAdmitTheClient) {
  server.Export("/open", With({kSys}));
  server.Export("/sealed", With({kKrb5p}), {ClientSpec(*Network::Parse("198.51.100.0/24"))});
  EXPECT_THAT(OfRoot(), ElementsAre("sys"));
  server.SetInitiator(Alice(), rpc::GssService::kPrivacy);
  EXPECT_EQ(server.Run(0, PutRoot(), GetFh()).status, NFS4ERR_WRONGSEC);
}

TEST_F(SecinfoTest, AClientWithKerberosReachesAnExportThatTakesOnlyKerberos) {
  server.Export("/deep/sealed", With({kKrb5i}));
  server.SetInitiator(Alice(), rpc::GssService::kIntegrity);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("deep"), LookUp("sealed"), GetFh()).status, NFS4_OK);
  EXPECT_THAT(Of("deep"), ElementsAre("krb5i"));
  server.SetUser(0);
  EXPECT_EQ(server.Run(0, PutRoot(), GetFh()).status, NFS4ERR_WRONGSEC);
}

}  // namespace
}  // namespace penstock::nfs::v4
