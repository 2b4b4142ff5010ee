// What version 3 and MOUNT refuse, in the log.
#include <string>

#include "base/test_log.h"
#include "nfs/v3/nfs_test.h"

namespace penstock::nfs::v3 {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

fs::NewAttributes WithMode(uint32_t mode) {
  fs::NewAttributes attributes;
  attributes.mode = mode;
  return attributes;
}

class RefusalsTest : public ReadOnlyTest {
 protected:
  rpc::AuthStatus DenialOf(const nfs_fh3& object) {
    return memory.Ask(memory.EncodeCall<NFSPROC3_ACCESS>({object, ACCESS3_READ})).auth_status();
  }
  mount3::mountstat3 Mount(std::string_view path) { return memory.Call<mount3::MOUNTPROC3_MNT>({path}).fhs_status(); }

  CapturedLog captured_;
};

TEST_F(RefusalsTest, NamesRootSquashWhenItTakesAPermissionFromRoot) {
  memory.Export("/squashed", {.squash = Squash::kRoot});
  const nfs_fh3 squashed = memory.RootOf("/squashed");
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{squashed, "name"}, {}}).status()), NFS3ERR_ACCES);
  EXPECT_EQ(captured_.TakeOne(),
            "warning: 192.0.2.1 is refused an operation of its root in the export /squashed: its root has the rights "
            "of uid 65534 there, because of the option root_squash (no_root_squash would give it those of root) (MKDIR "
            "of version 3 by uid 0)\n");
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{squashed, "name"}, {}}).status()), NFS3ERR_ACCES);
  EXPECT_EQ(captured_.Take(), "") << "once a minute";
}

TEST_F(RefusalsTest, NamesAllSquashWhenThatIsTheReason) {
  memory.Export("/squashed", {.squash = Squash::kAll});
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{memory.RootOf("/squashed"), "name"}, {}}).status()), NFS3ERR_ACCES);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("because of the option all_squash"));
}

TEST_F(RefusalsTest, SaysNothingOfOrdinaryPermissions) {
  const nfs_fh3 secret = MakeFile("secret", "text", 0600);
  memory.SetUser(1000);
  EXPECT_EQ(Call<NFSPROC3_READ>({secret, 0, 10}).status(), NFS3ERR_ACCES);
  EXPECT_EQ((Call<NFSPROC3_MKDIR>({{root, "name"}, {}}).status()), NFS3ERR_ACCES);
  EXPECT_EQ(StatusOfLookup("missing"), NFS3ERR_NOENT);
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({secret, ACCESS3_READ}).resok().access, 0u);
  EXPECT_EQ(captured_.Take(), "");
}

TEST_F(RefusalsTest, AccessWithoutAnyRightIsARefusalForASquashedRoot) {
  fs::memory::FileSystem& tree = memory.Export("/squashed", {.squash = Squash::kRoot});
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  fs::CreateHow how;
  how.attributes.mode = 0640;
  Now(tree.Create(context, tree.Root(), "file", how));
  const nfs_fh3 squashed = memory.RootOf("/squashed");
  const nfs_fh3 found = Call<NFSPROC3_LOOKUP>({{squashed, "file"}}).resok().object;
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({squashed, ACCESS3_READ | ACCESS3_MODIFY}).resok().access, ACCESS3_READ);
  EXPECT_EQ(captured_.Take(), "") << "a part of the rights: nothing is refused yet";
  EXPECT_EQ(Call<NFSPROC3_ACCESS>({found, ACCESS3_READ | ACCESS3_MODIFY}).resok().access, 0u);
  EXPECT_THAT(captured_.TakeOne(), AllOf(HasSubstr("root_squash"), HasSubstr("(ACCESS of version 3 by uid 0)")));
}

TEST_F(RefusalsTest, AListingThatASquashedRootMayNotReadIsARefusal) {
  fs::memory::FileSystem& tree = memory.Export("/squashed", {.squash = Squash::kRoot});
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  Now(tree.MakeDirectory(context, tree.Root(), "private", WithMode(0700)));
  const nfs_fh3 found = Call<NFSPROC3_LOOKUP>({{memory.RootOf("/squashed"), "private"}}).resok().object;
  EXPECT_EQ(Call<NFSPROC3_READDIR>({found, 0, {}, 4096}).status(), NFS3ERR_ACCES);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("(READDIR of version 3 by uid 0)"));
}

TEST_F(RefusalsTest, NamesAReadOnlyExport) {
  EXPECT_EQ(Call<NFSPROC3_REMOVE>({{directory, "file"}}).status(), NFS3ERR_ROFS);
  EXPECT_EQ(captured_.TakeOne(),
            "warning: 192.0.2.1 is refused a change in the export /ro: the export is read-only for it (option ro; rw "
            "would allow it) (REMOVE of version 3 by uid 0)\n");
}

TEST_F(RefusalsTest, NamesHandlesThatLeadNowhere) {
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({StaleHandle()}).status(), NFS3ERR_STALE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("192.0.2.1 has a file handle of a file in the export / that is gone"));
  FileHandle gone = memory.exports.table().Resolve("/").found->root();
  gone.export_id = ExportId(12345);
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({ToHandle(gone)}).status(), NFS3ERR_STALE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("has a file handle of an export that is gone, or of another server"));
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({NoHandle()}).status(), NFS3ERR_BADHANDLE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("has a file handle that is malformed, or of another server"));
}

TEST_F(RefusalsTest, NamesTheFlavorsThatAnExportTakes) {
  memory.Export("/strict", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5i, SecurityFlavor::kKrb5p}});
  EXPECT_EQ(DenialOf(memory.RootOf("/strict")), rpc::AuthStatus::AUTH_TOOWEAK);
  EXPECT_EQ(captured_.TakeOne(),
            "warning: 192.0.2.1 is refused the export /strict: it takes no calls with sec=sys, but those with "
            "sec=krb5i:krb5p (the option sec= names the flavors) (uid 0)\n");
}

TEST_F(RefusalsTest, NamesTheClientsAndThePort) {
  memory.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({memory.RootOf("/inside")}).status(), NFS3ERR_STALE);
  EXPECT_EQ(captured_.TakeOne(),
            "warning: 192.0.2.1 is refused the export /inside: the export names other clients (exports(5), or the "
            "option client=)\n");
  memory.Export("/reserved", {.privileged_ports = true});
  memory.peer.address = {memory.peer.address.address(), 2000};
  EXPECT_EQ(Call<NFSPROC3_GETATTR>({memory.RootOf("/reserved")}).status(), NFS3ERR_STALE);
  EXPECT_EQ(captured_.TakeOne(),
            "warning: 192.0.2.1 is refused the export /reserved: its port is not below 1024, which the export's option "
            "secure asks for\n");
}

TEST_F(RefusalsTest, NamesThePortWhereOtherFlavorsNeedNone) {
  memory.Export("/reserved", {.privileged_ports = true, .security = {SecurityFlavor::kSys, SecurityFlavor::kKrb5}});
  memory.peer.address = {memory.peer.address.address(), 2000};
  EXPECT_EQ(DenialOf(memory.RootOf("/reserved")), rpc::AuthStatus::AUTH_TOOWEAK);
  EXPECT_THAT(captured_.TakeOne(),
              HasSubstr("the export's option secure asks for a port below 1024 for calls with sec=sys"));
}

TEST_F(RefusalsTest, NamesMissingTls) {
  memory.Export("/tls", {.protections = *Protections::Parse("tls:mtls")});
  EXPECT_EQ(DenialOf(memory.RootOf("/tls")), rpc::AuthStatus::AUTH_TOOWEAK);
  EXPECT_THAT(captured_.TakeOne(),
              HasSubstr("is refused the export /tls: its connection has no TLS, and the export has "
                        "xprtsec=tls:mtls; mount it with xprtsec=tls"));
}

TEST_F(RefusalsTest, NamesAPathThatNoExportHas) {
  memory.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  EXPECT_EQ(Mount("/inside"), mount3::MNT3ERR_ACCES);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("is refused the export /inside"));
  EXPECT_EQ(Mount("relative\n"), mount3::MNT3ERR_NOENT);
  EXPECT_EQ(captured_.TakeOne(), "warning: 192.0.2.1 cannot mount \"relative?\": no export has this path\n");
}

TEST_F(RefusalsTest, AMountThatRootSquashKeepsFromADirectoryIsARefusal) {
  fs::memory::FileSystem& tree = memory.Export("/squashed", {.squash = Squash::kRoot});
  const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  const fs::Handle outer = Now(tree.MakeDirectory(context, tree.Root(), "private", WithMode(0700))).result->handle;
  Now(tree.MakeDirectory(context, outer, "inner", WithMode(0755)));
  EXPECT_EQ(Mount("/squashed/private/inner"), mount3::MNT3ERR_ACCES);
  EXPECT_THAT(captured_.TakeOne(), AllOf(HasSubstr("root_squash"), HasSubstr("(MNT of version 3 by uid 0)")));
}

TEST_F(RefusalsTest, BlamesNoOptionIfTheServerCannotActAsItsCallers) {
  TestServer other;
  other.Export("/squashed", {.squash = Squash::kRoot});
  const Refusals refusals(std::make_shared<RefusalLog>(), /*squash_matters=*/false);
  rpc::CallContext call{.peer = other.peer, .version = 3};
  const auto place = other.exports.table().Resolve("/squashed");
  refusals.HandleFailure(
      {.call = call, .operation = "NFSPROC3_MKDIR", .status = 13, .in = place.found, .root_is_squashed = true});
  EXPECT_EQ(captured_.Take(), "");
  refusals.HandleFailure({.call = call, .operation = "NFSPROC3_MKDIR", .status = 30, .in = place.found});
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("/squashed: its file system, or this part of it, is read-only"));
}

TEST_F(RefusalsTest, AThousandRefusalsGiveOneLineAndACount) {
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(Call<NFSPROC3_REMOVE>({{directory, "file"}}).status(), NFS3ERR_ROFS);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("read-only"));
  memory.exports.refusals().log().Finish();
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("(999 more since the last such line)"));
}

}  // namespace
}  // namespace penstock::nfs::v3
