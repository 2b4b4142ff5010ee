// What version 4 refuses, in the log.
#include <string>

#include "base/test_log.h"
#include "nfs/v4/operations/stateful_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::AllOf;
using testing::HasSubstr;

fs::NewAttributes WithMode(uint32_t mode) {
  fs::NewAttributes attributes;
  attributes.mode = mode;
  return attributes;
}

class RefusedOperationsTest : public testing::Test {
 protected:
  RefusedOperationsTest() {
    fs::memory::FileSystem& tree = server.Export("/", {.squash = Squash::kRoot});
    server.Export("/ro", {.read_only = true, .squash = Squash::kNone});
    server.Export("/strict", {.squash = Squash::kNone, .security = {SecurityFlavor::kKrb5p}});
    server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
    const fs::RequestContext context{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    Now(tree.MakeDirectory(context, tree.Root(), "private", WithMode(0700)));
    const auto gone = Now(tree.MakeDirectory(context, tree.Root(), "gone", WithMode(0700)));
    Now(tree.RemoveDirectory(context, tree.Root(), "gone"));
    removed = ToFileHandle({server.exports.table().Resolve("/").found->id(), gone.result->handle});
  }
  nfs_fh4 RootOf(std::string_view path) { return ToFileHandle(server.exports.table().Resolve(path).found->root()); }
  template <class... Arguments>
  nfsstat4 StatusOf(const Sent<Arguments>&... operations) {
    return server.Run(0, operations...).status;
  }
  static auto MakeFolder() { return Op(OP_CREATE, CREATE4args{createtype4(NF4DIR), "new", {}}); }
  static auto AskAccess() { return Op(OP_ACCESS, ACCESS4args{ACCESS4_READ | ACCESS4_MODIFY}); }

  CapturedLog captured_;
  Nfs4Server server;
  nfs_fh4 removed;
};

TEST_F(RefusedOperationsTest, NamesRootSquash) {
  EXPECT_EQ(StatusOf(PutRoot(), MakeFolder()), NFS4ERR_ACCESS);
  EXPECT_THAT(captured_.TakeOne(),
              AllOf(HasSubstr("192.0.2.1 is refused an operation of its root in the export /:"),
                    HasSubstr("the option root_squash"), HasSubstr("(CREATE of version 4 by uid 0)")));
}

TEST_F(RefusedOperationsTest, AccessWithoutAnyRightIsARefusalForASquashedRoot) {
  EXPECT_EQ(StatusOf(PutRoot(), AskAccess()), NFS4_OK);
  EXPECT_EQ(captured_.Take(), "") << "a part of the rights";
  EXPECT_EQ(StatusOf(PutRoot(), LookUp("private"), AskAccess()), NFS4_OK);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("(ACCESS of version 4 by uid 0)"));
}

TEST_F(RefusedOperationsTest, SaysNothingOfOrdinaryPermissions) {
  server.SetUser(1000);
  EXPECT_EQ(StatusOf(PutRoot(), MakeFolder()), NFS4ERR_ACCESS);
  EXPECT_EQ(StatusOf(PutRoot(), LookUp("missing")), NFS4ERR_NOENT);
  EXPECT_EQ(StatusOf(PutRoot(), LookUp("private"), AskAccess()), NFS4_OK);
  EXPECT_EQ(captured_.Take(), "");
}

TEST_F(RefusedOperationsTest, NamesAReadOnlyExport) {
  EXPECT_EQ(StatusOf(PutFh(RootOf("/ro")), MakeFolder()), NFS4ERR_ROFS);
  EXPECT_THAT(captured_.TakeOne(),
              AllOf(HasSubstr("is refused a change in the export /ro: the export is read-only for it"),
                    HasSubstr("(CREATE of version 4 by uid 0)")));
}

TEST_F(RefusedOperationsTest, NamesHandlesThatLeadNowhere) {
  EXPECT_EQ(StatusOf(PutFh(removed)), NFS4ERR_STALE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("has a file handle of a file in the export / that is gone"));
  FileHandle gone = server.exports.table().Resolve("/").found->root();
  gone.export_id = ExportId(12345);
  // The filehandle that was current before is no part of the reason.
  EXPECT_EQ(StatusOf(PutRoot(), PutFh(ToFileHandle(gone)), GetFh()), NFS4ERR_STALE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("has a file handle of an export that is gone, or of another server"));
  EXPECT_EQ(StatusOf(PutFh(nfs_fh4(AsBytes("none"))), GetFh()), NFS4ERR_BADHANDLE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("has a file handle that is malformed, or of another server"));
}

TEST_F(RefusedOperationsTest, NamesTheFlavorsThatAnExportTakes) {
  EXPECT_EQ(StatusOf(PutFh(RootOf("/strict")), GetFh()), NFS4ERR_WRONGSEC);
  EXPECT_THAT(captured_.TakeOne(),
              HasSubstr("is refused the export /strict: it takes no calls with sec=sys, but those with "
                        "sec=krb5p"));
}

TEST_F(RefusedOperationsTest, NamesTheMinorVersions) {
  EXPECT_EQ(server.Run(7).status, NFS4ERR_MINOR_VERS_MISMATCH);
  EXPECT_THAT(captured_.TakeOne(),
              HasSubstr("is refused a minor version of NFS version 4: the server has 4.0, 4.1 and 4.2"));
}

TEST_F(RefusedOperationsTest, AHostThatIsNotAdmittedHasOneLine) {
  EXPECT_EQ(StatusOf(PutFh(RootOf("/inside")), GetFh()), NFS4ERR_STALE);
  EXPECT_THAT(captured_.TakeOne(), HasSubstr("is refused the export /inside: the export names other clients"));
}

}  // namespace
}  // namespace penstock::nfs::v4
