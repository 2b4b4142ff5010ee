// Versions 1 and 2 of MOUNT, for clients of NFS version 2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/address.h"
#include "base/test_log.h"
#include "fs/faulty/file_system.h"
#include "nfs/mount/program.h"
#include "nfs/padded_handle.h"
#include "nfs/test_server.h"

namespace penstock::nfs::mount {
namespace {

using namespace mount1;  // NOLINT: the protocol's own names, RFC 1094 appendix A
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class FirstVersionsTest : public testing::Test {
 protected:
  FirstVersionsTest() {
    fs::memory::FileSystem& tree = server.Export("/data");
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    fs::NewAttributes attributes;
    attributes.mode = 0755;
    Now(tree.MakeDirectory(root, tree.Root(), "deep", attributes));
    Now(tree.Create(root, tree.Root(), "file", {}));
  }

  uint32_t StatusOf(std::string_view path) { return server.Call<MOUNTPROC1_MNT>(path).status(); }
  Answer Ask(uint32_t version, uint32_t procedure) {
    return server.Ask(
        server.Encode(rpc::Xid(++server.last_xid), mount1::MOUNT_PROGRAM, version, procedure, xdr::Void()));
  }

  TestServer server{{}, Versions::kOneToThree};
};

TEST_F(FirstVersionsTest, MountReturnsAHandleOf32Octets) {
  const auto mounted = server.Call<MOUNTPROC1_MNT>("/data/deep");
  ASSERT_EQ(mounted.status(), 0u);
  const auto third = server.Call<mount3::MOUNTPROC3_MNT>("/data/deep");
  EXPECT_EQ(FromPadded(mounted.directory()), FileHandle::Parse(third.mountinfo().fhandle.bytes()));
  EXPECT_EQ(server.Call<MOUNTPROC2_MNT>("/data/deep").directory(), mounted.directory());
}

TEST_F(FirstVersionsTest, TheStatusIsAUnixErrorNumber) {
  EXPECT_EQ(StatusOf("/other"), 2u);
  EXPECT_EQ(StatusOf("/data/file"), 20u);
  EXPECT_EQ(StatusOf("/data/.."), 13u);
  server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  EXPECT_EQ(StatusOf("/inside"), 13u);
  server.SetNoIdentity();
  EXPECT_EQ(server.Ask(server.EncodeCall<MOUNTPROC1_MNT>("/data")).auth_status(), rpcmsg::AUTH_TOOWEAK);
}

TEST_F(FirstVersionsTest, ADirectoryWhoseHandleIsTooLongCannotBeMounted) {
  struct LongRoot final : fs::faulty::FileSystem {
    using FileSystem::FileSystem;
    fs::Handle Root() const override { return *fs::Handle::FromBytes(std::vector<std::byte>(28)); }
    Task<fs::Result<fs::Attributes>> GetAttributes(const fs::RequestContext&, const fs::Handle&) override {
      fs::Attributes attributes;
      attributes.type = fs::FileType::kDirectory;
      co_return attributes;
    }
  };
  const auto inner = std::make_shared<fs::memory::FileSystem>(fs::memory::Options{.instance = 99});
  ASSERT_TRUE(server.exports.Add("/long", std::make_shared<LongRoot>(inner), {}));
  const CapturedLog log;
  EXPECT_EQ(StatusOf("/long"), 5u);
  EXPECT_THAT(log.text(), HasSubstr("/long"));
  EXPECT_EQ(server.Call<mount3::MOUNTPROC3_MNT>("/long").fhs_status(), mount3::MNT3_OK);
  ASSERT_EQ(server.Call<MOUNTPROC1_DUMP>({}).size(), 1u);  // by version 3
}

TEST_F(FirstVersionsTest, AllVersionsShareTheListOfMounts) {
  EXPECT_EQ(StatusOf("/data"), 0u);
  EXPECT_EQ(StatusOf("/data/missing"), 2u);
  const auto dumped = server.Call<mount3::MOUNTPROC3_DUMP>({});
  ASSERT_EQ(dumped.size(), 1u);
  EXPECT_EQ(dumped[0].ml_directory, "/data");
  EXPECT_EQ(server.Call<MOUNTPROC2_DUMP>({})[0].hostname, "192.0.2.1");
  server.Call<MOUNTPROC1_UMNT>("/data");
  EXPECT_THAT(server.Call<MOUNTPROC1_DUMP>({}), IsEmpty());
  EXPECT_EQ(StatusOf("/data"), 0u);
  server.Call<MOUNTPROC2_UMNTALL>({});
  EXPECT_THAT(server.Call<MOUNTPROC1_DUMP>({}), IsEmpty());
}

TEST_F(FirstVersionsTest, ListsTheExports) {
  server.Export("/inside", {}, {ClientSpec(*Network::Parse("10.0.0.0/8"))});
  for (const exportlist& list : {server.Call<MOUNTPROC1_EXPORT>({}), server.Call<MOUNTPROC2_EXPORT>({}),
                                 server.Call<MOUNTPROC1_EXPORTALL>({}), server.Call<MOUNTPROC2_EXPORTALL>({})}) {
    ASSERT_EQ(list.size(), 2u);
    for (const exportnode& node : list) {
      if (node.filesys == "/inside") {
        ASSERT_EQ(node.members.size(), 1u);
        EXPECT_EQ(node.members[0].grname, "10.0.0.0/8");
      } else {
        EXPECT_EQ(node.filesys, "/data");
        EXPECT_THAT(node.members, IsEmpty());
      }
    }
  }
}

TEST_F(FirstVersionsTest, PathconfReturnsTheLimitsOfNames) {
  const ppathcnf limits = server.Call<MOUNTPROC2_PATHCONF>("/data");
  EXPECT_EQ(limits.name_max, 255);
  EXPECT_EQ(limits.path_max, 1024);
  EXPECT_GT(limits.link_max, 0);
  const auto mask = static_cast<uint32_t>(limits.mask[0]);
  EXPECT_EQ(mask & (PC_ERROR_ALL | PC_ERROR_LINK_MAX | PC_ERROR_NAME_MAX | PC_ERROR_PATH_MAX), 0u);
  EXPECT_EQ(mask & (PC_CHOWN_RESTRICTED | PC_NO_TRUNC), PC_CHOWN_RESTRICTED | PC_NO_TRUNC);
  EXPECT_EQ(mask & PC_ERROR_PIPE_BUF, PC_ERROR_PIPE_BUF);
  EXPECT_EQ(server.Call<MOUNTPROC2_PATHCONF>("/missing").mask[0], int32_t{PC_ERROR_ALL});
}

TEST_F(FirstVersionsTest, EachVersionHasItsProcedures) {
  for (const uint32_t version : {1u, 2u, 3u}) EXPECT_TRUE(Ask(version, 0).succeeded());
  EXPECT_EQ(Ask(1, 7).accept_status(), rpcmsg::PROC_UNAVAIL);
  EXPECT_EQ(Ask(2, 7).accept_status(), rpcmsg::GARBAGE_ARGS);  // a path is missing
  EXPECT_EQ(Ask(1, 8).accept_status(), rpcmsg::PROC_UNAVAIL);
  EXPECT_EQ(Ask(2, 8).accept_status(), rpcmsg::PROC_UNAVAIL);
  EXPECT_EQ(Ask(3, 6).accept_status(), rpcmsg::PROC_UNAVAIL);
  const Answer other = Ask(4, 0);
  EXPECT_EQ(other.accept_status(), rpcmsg::PROG_MISMATCH);
  EXPECT_EQ(other.header.body.areply().reply_data.mismatch_info(), (rpcmsg::version_range{1, 3}));
}

}  // namespace
}  // namespace penstock::nfs::mount
