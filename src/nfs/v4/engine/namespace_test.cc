#include "nfs/v4/engine/namespace.h"

#include "nfs/v4/engine/nfs4_test.h"

namespace penstock::nfs::v4 {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class NamespaceTest : public testing::Test {
 protected:
  void AddDirectory(fs::memory::FileSystem& tree, std::string_view name) {
    const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
    EXPECT_TRUE(Now(tree.MakeDirectory(root, tree.Root(), name, {})).result);
  }
  nfs_fh4 RootOf(std::string_view path) { return ToFileHandle(server.exports.table().Resolve(path).found->root()); }
  // Clients of the exports that are not for this one.
  static std::vector<ClientSpec> Others() { return {ClientSpec(*Network::Parse("198.51.100.0/24"))}; }

  nfs_fh4 HandleAfter(CompoundReply reply) {
    EXPECT_EQ(reply.status, NFS4_OK);
    return reply.Skip(reply.count - 1).Next<GETFH4res>().resok4().object;
  }
  std::vector<std::string> NamesIn(const nfs_fh4& directory) {
    auto reply = server.Run(0, PutFh(directory), Op(OP_READDIR, READDIR4args{0, {}, 0, 65536, {}}));
    EXPECT_EQ(reply.status, NFS4_OK);
    std::vector<std::string> names;
    const auto read = reply.Skip().Next<READDIR4res>();
    for (const entry4& entry : read.resok4().reply.entries) names.emplace_back(entry.name);
    return names;
  }
  uint64_t Number(const nfs_fh4& object, uint32_t attribute) {
    auto reply = server.Run(0, PutFh(object), GetAttr({attribute}));
    const auto got = reply.Skip().Next<GETATTR4res>().resok4().obj_attributes.attr_vals;
    return LoadBig<uint64_t>(got.data());
  }

  Nfs4Server server;
};

TEST_F(NamespaceTest, BeginsAtTheExportOfTheRoot) {
  server.Export("/");
  EXPECT_EQ(HandleAfter(server.Run(0, PutRoot(), GetFh())), RootOf("/"));
}

TEST_F(NamespaceTest, LeadsToExportsThroughPseudoDirectories) {
  server.Export("/srv/a");
  server.Export("/srv/b");
  EXPECT_EQ(HandleAfter(server.Run(0, PutRoot(), LookUp("srv"), LookUp("b"), GetFh())), RootOf("/srv/b"));
  const nfs_fh4 top = HandleAfter(server.Run(0, PutRoot(), GetFh()));
  const nfs_fh4 srv = HandleAfter(server.Run(0, PutRoot(), LookUp("srv"), GetFh()));
  EXPECT_THAT(NamesIn(top), ElementsAre("srv"));
  EXPECT_THAT(NamesIn(srv), UnorderedElementsAre("a", "b"));
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("none")).status, NFS4ERR_NOENT);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp(std::string(256, 'n'))).status, NFS4ERR_NAMETOOLONG);
}

TEST_F(NamespaceTest, LookuppLeadsBackThroughTheSameDirectories) {
  server.Export("/srv/a");
  const nfs_fh4 srv = HandleAfter(server.Run(0, PutRoot(), LookUp("srv"), GetFh()));
  EXPECT_EQ(HandleAfter(server.Run(0, PutFh(RootOf("/srv/a")), LookUpParent(), GetFh())), srv);
  EXPECT_EQ(HandleAfter(server.Run(0, PutFh(srv), LookUpParent(), GetFh())),
            HandleAfter(server.Run(0, PutRoot(), GetFh())));
  EXPECT_EQ(server.Run(0, PutRoot(), LookUpParent()).status, NFS4ERR_NOENT);
}

TEST_F(NamespaceTest, ShowsOnlyExportsThatAdmitTheClient) {
  server.Export("/srv/a");
  server.Export("/srv/b", {}, Others());
  server.Export("/others/c", {}, Others());
  EXPECT_THAT(NamesIn(HandleAfter(server.Run(0, PutRoot(), GetFh()))), ElementsAre("srv"));
  EXPECT_THAT(NamesIn(HandleAfter(server.Run(0, PutRoot(), LookUp("srv"), GetFh()))), ElementsAre("a"));
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("srv"), LookUp("b")).status, NFS4ERR_NOENT);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("others")).status, NFS4ERR_NOENT);
  EXPECT_EQ(server.Run(0, PutFh(RootOf("/srv/b")), GetFh()).status, NFS4ERR_STALE);
}

TEST_F(NamespaceTest, HidesARootExportThatDoesNotAdmitTheClient) {
  server.Export("/", {}, Others());
  server.Export("/a");
  EXPECT_EQ(HandleAfter(server.Run(0, PutRoot(), LookUp("a"), GetFh())), RootOf("/a"));
}

TEST_F(NamespaceTest, AnExportReplacesADirectoryOfAnotherExport) {
  fs::memory::FileSystem& tree = server.Export("/");
  AddDirectory(tree, "inner");
  server.Export("/inner");
  const nfs_fh4 inner = HandleAfter(server.Run(0, PutRoot(), LookUp("inner"), GetFh()));
  EXPECT_EQ(inner, RootOf("/inner"));
  EXPECT_EQ(HandleAfter(server.Run(0, PutFh(inner), LookUpParent(), GetFh())), RootOf("/"));
  EXPECT_THAT(NamesIn(RootOf("/")), ElementsAre("inner"));
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_REMOVE, REMOVE4args{"inner"})).status, NFS4ERR_ACCESS);
}

TEST_F(NamespaceTest, AClientThatAnExportDoesNotAdmitCannotRemoveItsPlace) {
  fs::memory::FileSystem& tree = server.Export("/");
  AddDirectory(tree, "inner");
  AddDirectory(tree, "other");
  server.Export("/inner", {}, Others());
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_REMOVE, REMOVE4args{"inner"})).status, NFS4ERR_ACCESS);
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_CREATE, CREATE4args{createtype4(NF4DIR), "inner", {}})).status,
            NFS4ERR_ACCESS);
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_SAVEFH, xdr::Void()), Op(OP_RENAME, RENAME4args{"other", "inner"})).status,
            NFS4ERR_ACCESS);
}

TEST_F(NamespaceTest, AHandleOfADirectoryAboveHiddenExportsIsStale) {
  Nfs4Server open;
  open.Export("/others/c");
  const nfs_fh4 guessed = HandleAfter(open.Run(0, PutRoot(), LookUp("others"), GetFh()));
  server.Export("/srv/a");
  server.Export("/others/c", {}, Others());
  EXPECT_EQ(server.Run(0, PutFh(guessed), GetAttr({FATTR4_TYPE})).status, NFS4ERR_STALE);
  const nfs_fh4 top = HandleAfter(server.Run(0, PutRoot(), GetFh()));
  EXPECT_EQ(server.Run(0, PutFh(top)).status, NFS4_OK);
}

// RFC 8881 §5.8.2.23
TEST_F(NamespaceTest, MountedOnFileidIsTheFileidOfTheReplacedDirectory) {
  fs::memory::FileSystem& tree = server.Export("/");
  AddDirectory(tree, "inner");
  server.Export("/inner");
  const fs::RequestContext root{.credentials = {.uid = 0, .gid = 0, .groups = {}}};
  const uint64_t covered = Now(tree.Lookup(root, tree.Root(), "inner")).result->attributes.fileid;
  EXPECT_EQ(Number(RootOf("/inner"), FATTR4_MOUNTED_ON_FILEID), covered);
  EXPECT_NE(Number(RootOf("/inner"), FATTR4_FILEID), covered);
  EXPECT_EQ(Number(RootOf("/"), FATTR4_MOUNTED_ON_FILEID), Number(RootOf("/"), FATTR4_FILEID));
}

TEST_F(NamespaceTest, GivesEveryExportItsOwnFsid) {
  server.Export("/a");
  server.Export("/b");
  const nfs_fh4 top = HandleAfter(server.Run(0, PutRoot(), GetFh()));
  EXPECT_NE(Number(RootOf("/a"), FATTR4_FSID), Number(RootOf("/b"), FATTR4_FSID));
  EXPECT_NE(Number(RootOf("/a"), FATTR4_FSID), Number(top, FATTR4_FSID));
}

TEST_F(NamespaceTest, KeepsHandlesOfPseudoDirectoriesAfterARestart) {
  server.Export("/srv/a");
  Nfs4Server again;
  again.Export("/other");
  again.Export("/srv/a");
  const auto handle = [&](Nfs4Server& of) { return HandleAfter(of.Run(0, PutRoot(), LookUp("srv"), GetFh())); };
  EXPECT_EQ(handle(server), handle(again));
}

TEST_F(NamespaceTest, RefusesChangesInPseudoDirectories) {
  server.Export("/srv/a");
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_CREATE, CREATE4args{createtype4(NF4DIR), "x", {}})).status, NFS4ERR_ROFS);
  EXPECT_EQ(server.Run(0, PutRoot(), Op(OP_REMOVE, REMOVE4args{"srv"})).status, NFS4ERR_ROFS);
}

TEST_F(NamespaceTest, HasAnEmptyRootWithoutExports) {
  EXPECT_THAT(NamesIn(HandleAfter(server.Run(0, PutRoot(), GetFh()))), IsEmpty());
}

// fsid=0 of exports(5).
class RootExportTest : public NamespaceTest {
 protected:
  // Exports the tree "/srv" as the root, with another export below it and one beside it.
  void MakeExports(const std::vector<ClientSpec>& clients_of_root) {
    fs::memory::FileSystem& srv = server.Export("/srv");
    AddDirectory(srv, "plain");
    AddDirectory(srv, "data");  // the place of the export below
    server.Export("/srv/data");
    server.Export("/elsewhere");
    ExportTable table;
    for (const auto& each : server.exports.table().all()) {
      if (each->path() != "/srv") {
        table.Keep(each);
        continue;
      }
      std::vector<Admission> admissions = each->admissions();
      if (!clients_of_root.empty()) admissions.front().clients = clients_of_root.front();
      ASSERT_TRUE(table.Add("/srv", each->shared_file_system(), admissions, nullptr, true));
    }
    server.exports.Replace(std::make_shared<const ExportTable>(std::move(table)));
  }
};

TEST_F(RootExportTest, TheTreeBeginsAtTheExport) {
  MakeExports({});
  const nfs_fh4 root = HandleAfter(server.Run(0, PutRoot(), GetFh()));
  EXPECT_EQ(root, RootOf("/srv"));
  EXPECT_THAT(NamesIn(root), testing::UnorderedElementsAre("plain", "data"));
  EXPECT_EQ(HandleAfter(server.Run(0, PutRoot(), LookUp("data"), GetFh())), RootOf("/srv/data"));
  EXPECT_EQ(HandleAfter(server.Run(0, PutFh(RootOf("/srv/data")), LookUpParent(), GetFh())), root);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUpParent()).status, NFS4ERR_NOENT);
}

TEST_F(RootExportTest, ExportsBesideItAreOutOfTheTree) {
  MakeExports({});
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("elsewhere")).status, NFS4ERR_NOENT);
  EXPECT_EQ(server.Run(0, PutRoot(), LookUp("srv")).status, NFS4ERR_NOENT);
}

TEST_F(RootExportTest, AClientThatItDoesNotAdmitSeesTheExportsBelowIt) {
  MakeExports(Others());
  const nfs_fh4 root = HandleAfter(server.Run(0, PutRoot(), GetFh()));
  EXPECT_THAT(NamesIn(root), testing::ElementsAre("data"));
  EXPECT_EQ(HandleAfter(server.Run(0, PutRoot(), LookUp("data"), GetFh())), RootOf("/srv/data"));
}

}  // namespace
}  // namespace penstock::nfs::v4
