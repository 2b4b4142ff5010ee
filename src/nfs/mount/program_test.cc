#include "nfs/mount/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/address.h"
#include "base/test_log.h"
#include "nfs/absent_file_system.h"
#include "nfs/test_server.h"

namespace penstock::nfs::mount {
namespace {

using namespace mount3;  // NOLINT: the protocol's own names, RFC 1813 §5
using testing::ElementsAre;
using testing::IsEmpty;

class MountTest : public testing::Test {
 protected:
  MountTest() {
    fs::memory::FileSystem& tree = server.Export("/data");
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    const auto make = [&](const fs::Handle& in, std::string_view name, uint32_t mode) {
      fs::NewAttributes attributes;
      attributes.mode = mode;
      return Now(tree.MakeDirectory(root, in, name, attributes)).result->handle;
    };
    make(make(tree.Root(), "deep", 0755), "deeper", 0755);
    make(tree.Root(), "private", 0700);
    Now(tree.MakeSymlink(root, tree.Root(), "link", "deep", {}));
    Now(tree.Create(root, tree.Root(), "file", {}));
  }

  mountres3 Mount(std::string_view path) { return server.Call<MOUNTPROC3_MNT>(path); }
  mountstat3 StatusOf(std::string_view path) { return Mount(path).fhs_status(); }

  // Returns the entries of DUMP as "host directory".
  std::vector<std::string> Mounts() {
    std::vector<std::string> mounts;
    for (const auto& entry : server.Call<MOUNTPROC3_DUMP>({})) {
      mounts.push_back(std::string(entry.ml_hostname) + " " + std::string(entry.ml_directory));
    }
    return mounts;
  }

  TestServer server;
};

TEST_F(MountTest, ReturnsTheHandleOfAnExport) {
  const auto mounted = Mount("/data");
  ASSERT_EQ(mounted.fhs_status(), MNT3_OK);
  EXPECT_EQ(mounted.mountinfo().fhandle, server.RootOf("/data").data);
  EXPECT_THAT(mounted.mountinfo().auth_flavors, ElementsAre(1));
  const auto got = server.Call<nfs3::NFSPROC3_GETATTR>({{mounted.mountinfo().fhandle}});
  EXPECT_EQ(got.status(), nfs3::NFS3_OK);
}

// RFC 1813 has no referrals.
TEST_F(MountTest, AReferralIsNeitherListedNorMounted) {
  ExportOptions options;
  options.locations = {.referral = true, .list = {{"/a", {"other"}}}};
  ASSERT_TRUE(server.exports.Add("/far", std::make_shared<AbsentFileSystem>(), options));
  const CapturedLog log;
  EXPECT_EQ(StatusOf("/far"), MNT3ERR_NOTSUPP);
  EXPECT_EQ(StatusOf("/far/deep"), MNT3ERR_NOTSUPP);
  EXPECT_EQ(log.text().find("/far"), log.text().rfind("/far"));
  EXPECT_THAT(log.text(), testing::HasSubstr("/far"));
  for (const auto& node : server.Call<MOUNTPROC3_EXPORT>({})) EXPECT_NE(node.ex_dir, "/far");
  EXPECT_EQ(server.Call<nfs3::NFSPROC3_GETATTR>({server.RootOf("/far")}).status(), nfs3::NFS3ERR_STALE);
}

TEST_F(MountTest, MountsADirectoryInsideAnExport) {
  const auto mounted = Mount("//data/deep/./deeper/");
  ASSERT_EQ(mounted.fhs_status(), MNT3_OK);
  const auto parent = server.Call<nfs3::NFSPROC3_LOOKUP>({{{mounted.mountinfo().fhandle}, ".."}});
  EXPECT_EQ(parent.resok().object.data, Mount("/data/deep").mountinfo().fhandle);
}

TEST_F(MountTest, RejectsPathsOutsideOfExports) {
  EXPECT_EQ(StatusOf("/"), MNT3ERR_NOENT);
  EXPECT_EQ(StatusOf(""), MNT3ERR_NOENT);
  EXPECT_EQ(StatusOf("data"), MNT3ERR_NOENT);
  EXPECT_EQ(StatusOf("/other"), MNT3ERR_NOENT);
  EXPECT_EQ(StatusOf("/data/missing/deeper"), MNT3ERR_NOENT);
}

TEST_F(MountTest, RejectsFilesAndSymbolicLinks) {
  EXPECT_EQ(StatusOf("/data/file"), MNT3ERR_NOTDIR);
  EXPECT_EQ(StatusOf("/data/file/below"), MNT3ERR_NOTDIR);
  EXPECT_EQ(StatusOf("/data/link"), MNT3ERR_NOTDIR);
  EXPECT_EQ(StatusOf("/data/link/deeper"), MNT3ERR_NOTDIR);
}

TEST_F(MountTest, RejectsPathsThatLeadUp) {
  EXPECT_EQ(StatusOf("/data/.."), MNT3ERR_ACCES);
  EXPECT_EQ(StatusOf("/data/deep/../deep"), MNT3ERR_ACCES);
  EXPECT_EQ(StatusOf("/data/missing/.."), MNT3ERR_ACCES);
  EXPECT_EQ(StatusOf("/data/..deep"), MNT3ERR_NOENT);
}

TEST_F(MountTest, APathThatLeadsUpIsNotBlamedOnTheSquashingOfRoot) {
  server.Export("/squashed", {.squash = Squash::kRoot});
  const CapturedLog log;
  EXPECT_EQ(StatusOf("/squashed/.."), MNT3ERR_ACCES);
  EXPECT_THAT(log.text(), testing::HasSubstr("cannot mount \"/squashed/..\": the server follows no \"..\""));
  EXPECT_THAT(log.text(), testing::Not(testing::HasSubstr("root_squash")));
}

TEST_F(MountTest, LimitsTheLengthOfNamesAndPaths) {
  EXPECT_EQ(StatusOf("/data/" + std::string(256, 'x')), MNT3ERR_NAMETOOLONG);
  std::string longest = "/data";
  longest.append(1024 - longest.size(), '/');
  EXPECT_EQ(StatusOf(longest), MNT3_OK);
  // A longer path is not a valid dirpath (RFC 1813 §5.1.4).
  const Answer longer = server.Ask(server.Encode(rpc::Xid(1), mount3::MOUNT_PROGRAM, MOUNT_V3, MOUNTPROC3_MNT::kNumber,
                                                 xdr::StringView<2048>(longest + "/")));
  EXPECT_EQ(longer.accept_status(), rpcmsg::GARBAGE_ARGS);
}

TEST_F(MountTest, RequiresSearchPermissionOnThePath) {
  EXPECT_EQ(StatusOf("/data/private/below"), MNT3ERR_NOENT);
  server.SetUser(1000);
  EXPECT_EQ(StatusOf("/data/private/below"), MNT3ERR_ACCES);
}

TEST_F(MountTest, RefusesHostsThatTheExportDoesNotAdmit) {
  server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  EXPECT_EQ(StatusOf("/inside"), MNT3ERR_ACCES);
  server.peer.address = {asio::ip::make_address("10.1.2.3"), 700};
  EXPECT_EQ(StatusOf("/inside"), MNT3_OK);
}

// A host that no export admits learns nothing about the exports.
TEST(MountOfStrangers, DeniesAHostThatNoExportAdmits) {
  TestServer server;
  server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  for (const char* const path : {"/", "/inside", "/absent"}) {
    EXPECT_EQ(server.Call<MOUNTPROC3_MNT>(path).fhs_status(), MNT3ERR_ACCES) << path;
  }
  server.peer.address = {asio::ip::make_address("10.1.2.3"), 700};
  EXPECT_EQ(server.Call<MOUNTPROC3_MNT>("/absent").fhs_status(), MNT3ERR_NOENT);
}

TEST_F(MountTest, ReturnsTheFlavorsOfTheExportInOrderOfPreference) {
  using enum SecurityFlavor;
  server.Export("/kerberos", {.security = {kKrb5p, kKrb5i, kKrb5}});
  EXPECT_THAT(Mount("/kerberos").mountinfo().auth_flavors, ElementsAre(390005, 390004, 390003));
  server.Export("/any", {.security = {kKrb5, kSys, kNone}});
  EXPECT_THAT(Mount("/any").mountinfo().auth_flavors, ElementsAre(390003, 1, 0));
}

// Linux's client mounts in plain text, whatever xprtsec= says.
TEST_F(MountTest, MountsAnExportWithTlsInPlainText) {
  server.Export("/sealed", {.protections = *Protections::Parse("tls")});
  EXPECT_EQ(StatusOf("/sealed"), MNT3_OK);
  server.peer.transport = rpc::TransportKind::kUdp;
  EXPECT_EQ(StatusOf("/sealed"), MNT3_OK);
}

TEST_F(MountTest, RefusesToMountAnExportWithTlsOverRdma) {
  server.Export("/sealed", {.protections = *Protections::Parse("tls:mtls")});
  server.Export("/any");
  server.peer.transport = rpc::TransportKind::kRdma;
  EXPECT_EQ(server.Ask(server.EncodeCall<MOUNTPROC3_MNT>("/sealed")).auth_status(), rpcmsg::AUTH_TOOWEAK);
  EXPECT_EQ(StatusOf("/any"), MNT3_OK);
}

TEST_F(MountTest, AcceptsEveryFlavorButAuthNone) {
  server.Export("/kerberos", {.security = {SecurityFlavor::kKrb5p}});
  server.Export("/open", {.security = {SecurityFlavor::kNone}});
  EXPECT_EQ(StatusOf("/kerberos"), MNT3_OK);
  EXPECT_EQ(StatusOf("/open"), MNT3_OK);
  server.SetNoIdentity();
  EXPECT_EQ(StatusOf("/open"), MNT3_OK);
  EXPECT_EQ(server.Ask(server.EncodeCall<MOUNTPROC3_MNT>("/data")).auth_status(), rpcmsg::AUTH_TOOWEAK);
  EXPECT_EQ(server.Ask(server.EncodeCall<MOUNTPROC3_MNT>("/kerberos")).auth_status(), rpcmsg::AUTH_TOOWEAK);
}

TEST_F(MountTest, DumpsTheMounts) {
  EXPECT_THAT(Mounts(), IsEmpty());
  Mount("/data");
  Mount("/data/deep");
  Mount("/data/missing");
  EXPECT_THAT(Mounts(), ElementsAre("192.0.2.1 /data", "192.0.2.1 /data/deep"));
}

TEST_F(MountTest, RemovesUnmountedEntries) {
  Mount("/data");
  Mount("/data/deep");
  server.Call<MOUNTPROC3_UMNT>("/data");
  EXPECT_THAT(Mounts(), ElementsAre("192.0.2.1 /data/deep"));

  server.peer.address = {asio::ip::make_address("192.0.2.2"), 700};
  server.Call<MOUNTPROC3_UMNTALL>({});  // it removes the caller's entries; there are none
  EXPECT_THAT(Mounts(), ElementsAre("192.0.2.1 /data/deep"));
  server.peer.address = {asio::ip::make_address("::ffff:192.0.2.1"), 900};
  server.Call<MOUNTPROC3_UMNTALL>({});
  EXPECT_THAT(Mounts(), IsEmpty());
}

TEST_F(MountTest, ListsExportsWithTheirClients) {
  server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8")), ClientSpec(*Network::Parse("fd00::/8"))});
  std::map<std::string, std::vector<std::string>> listed;
  for (const auto& node : server.Call<MOUNTPROC3_EXPORT>({})) {
    auto& groups = listed[std::string(node.ex_dir)];
    for (const auto& group : node.ex_groups) groups.emplace_back(group.gr_name);
  }
  EXPECT_EQ(listed.size(), 2u);
  EXPECT_THAT(listed["/data"], IsEmpty());
  EXPECT_THAT(listed["/inside"], ElementsAre("10.0.0.0/8", "fd00::/8"));
}

TEST_F(MountTest, SupportsOnlyVersion3) {
  for (const uint32_t version : {1u, 2u, 4u}) {
    const Answer answer = server.Ask(
        server.Encode(rpc::Xid(1), mount3::MOUNT_PROGRAM, version, MOUNTPROC3_MNT::kNumber, dirpath("/data")));
    EXPECT_EQ(answer.accept_status(), rpcmsg::PROG_MISMATCH);
    EXPECT_EQ(answer.header.body.areply().reply_data.mismatch_info(), (rpcmsg::version_range{3, 3}));
  }
  EXPECT_TRUE(server.Ask(server.EncodeCall<MOUNTPROC3_NULL>({})).succeeded());
  EXPECT_EQ(server.Ask(server.Encode(rpc::Xid(1), mount3::MOUNT_PROGRAM, MOUNT_V3, 6, xdr::Void())).accept_status(),
            rpcmsg::PROC_UNAVAIL);
}

}  // namespace
}  // namespace penstock::nfs::mount
