// The file system over a real cluster, whose configuration the environment variable CEPH_CONF names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/loop.h"
#include "fs/ceph/file_system.h"
#include "fs/ceph/module.h"
#include "fs/ceph/module/client.h"
#include "fs/ceph/module/pool.h"
#include "fs/ceph/served_directories.h"
#include "fs/file_system_suite.h"
#include "objects/store_suite.h"

extern "C" penstock::fs::ceph::Module* penstock_ceph_module(const char* build);

namespace penstock::fs::ceph {
namespace {

// The module, linked with the test.
Module& TheModule() { return *penstock_ceph_module(kModuleBuild); }

std::string Conf() {
  const char* conf = std::getenv("CEPH_CONF");
  return conf ? conf : "/etc/ceph/ceph.conf";
}

// A new directory, to which every caller may write.
Location NewDirectory(Client& client) {
  static int count = 0;
  const std::string name = "test-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
  Inode *root = nullptr, *made = nullptr;
  Stat stat;
  EXPECT_GE(client.Root(root), 0);
  EXPECT_GE(client.MakeDirectory(kAsRoot, root, name, 0777, made, stat), 0);
  client.Put(made);
  client.Put(root);
  return Location{.path = "/" + name, .conf = Conf()};
}

Location NewDirectory() {
  static const auto client = MountClient(Location{.path = "/", .conf = Conf()}, std::chrono::seconds(30));
  EXPECT_TRUE(client) << client.error().message;
  return NewDirectory(**client);
}

class CephBackend : public suite::Backend {
 public:
  CephBackend() : location_(NewDirectory()) { Start(); }
  fs::FileSystem& fs() override { return *file_system_; }
  Loop* loop() override { return &loop_; }
  void RunOnce() override { loop_.context().run_one(); }
  void RunSome() override { loop_.context().poll(); }
  bool Restart() override {
    file_system_.reset();
    Start();
    return true;
  }
  bool knows_holes() const override { return false; }
  int64_t latest_time() const override { return UINT32_MAX; }
  bool reserves_space() const override { return false; }

 private:
  void Start() {
    // The tests do not measure the disk.
    auto opened = FileSystem::Open(location_, TheModule(), {.export_name = "/export", .sync_metadata = false});
    ASSERT_TRUE(opened) << opened.error().message;
    file_system_ = std::move(*opened);
  }

  const Location location_;
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  std::shared_ptr<FileSystem> file_system_;
};

// Several servers of one cluster, each with its own client.
class ClusterTest : public testing::Test {
 protected:
  std::shared_ptr<FileSystem> Serve(const std::string& name = "/export") {
    auto opened = FileSystem::Open(location_, TheModule(), {.export_name = name});
    EXPECT_TRUE(opened) << opened.error().message;
    return *std::move(opened);
  }
  template <class T>
  T Await(Task<T> task) {
    std::optional<T> result;
    Spawn(Keep(std::move(task), result));
    while (!result) loop_.context().run_one();
    return std::move(*result);
  }
  Changed<Node> Create(FileSystem& fs, std::string_view name, const CreateHow& how) {
    return Await(fs.Create(root_, fs.Root(), name, how));
  }
  Changed<WriteReply> Write(FileSystem& fs, const Handle& file, uint64_t offset, std::string_view text) {
    return Await(fs.Write(root_, file, offset, Data(Slice::Borrowed(AsBytes(text))), Stability::kUnstable));
  }
  std::string Read(FileSystem& fs, const Handle& file) {
    const auto read = Await(fs.Read(root_, file, 0, 1000));
    EXPECT_TRUE(read.result) << fs::ToString(read.result.error());
    return read.result ? suite::TextOf(read.result->data) : std::string();
  }

  const Location location_ = NewDirectory();
  Loop loop_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.context().get_executor()};
  const RequestContext root_{kAsRoot, &loop_};

 private:
  template <class T>
  static Task<> Keep(Task<T> task, std::optional<T>& result) {
    result.emplace(co_await std::move(task));
  }
};

TEST_F(ClusterTest, EveryServerUnderstandsTheHandlesOfAnother) {
  const auto one = Serve(), two = Serve();
  EXPECT_EQ(one->Root(), two->Root());
  const Handle file = Create(*one, "file", {}).result->handle;
  const auto found = Await(two->GetAttributes(root_, file));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->fsid, Await(one->GetAttributes(root_, file))->fsid);
  EXPECT_EQ(Await(two->Lookup(root_, two->Root(), "file")).result->handle, file);
}

TEST_F(ClusterTest, AnExportRefusesTheHandlesOfAnotherName) {
  const auto one = Serve("/one"), two = Serve("/two");
  EXPECT_EQ(suite::ErrorOf(Await(two->GetAttributes(root_, one->Root()))), Error::kBadHandle);
  EXPECT_EQ(*one->Identify(one->Root()), *two->Identify(two->Root()));
}

TEST_F(ClusterTest, OneServerReadsAtOnceWhatAnotherHasWritten) {
  const auto one = Serve(), two = Serve();
  const Handle file = Create(*one, "file", {}).result->handle;
  for (const char* text : {"first", "other", "third"}) {
    const uint64_t before = Await(two->GetAttributes(root_, file))->change;
    ASSERT_TRUE(Write(*one, file, 0, text).result);
    EXPECT_EQ(Read(*two, file), text);
    EXPECT_NE(Await(two->GetAttributes(root_, file))->change, before);
  }
}

TEST_F(ClusterTest, OneOfTwoServersCreatesAFileExclusively) {
  const auto one = Serve(), two = Serve();
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.verifier = CreateVerifier(1);
  ASSERT_TRUE(Create(*one, "file", how).result);
  EXPECT_TRUE(Create(*two, "file", how).result) << "the client sends the call again, to another server";
  how.verifier = CreateVerifier(2);
  EXPECT_EQ(suite::ErrorOf(Create(*two, "file", how).result), Error::kExist);
}

// Makes a snapshot of the directory, as another client of the cluster.
void TakeSnapshot(const Location& location, const std::string& name) {
  const auto native = MountClient(location, std::chrono::seconds(30));
  ASSERT_TRUE(native) << native.error().message;
  Inode *root = nullptr, *snap = nullptr, *made = nullptr;
  Stat stat;
  ASSERT_GE((*native)->Root(root), 0);
  ASSERT_GE((*native)->Lookup(kAsRoot, root, ".snap", snap, stat), 0);
  ASSERT_GE((*native)->MakeDirectory(kAsRoot, snap, name, 0755, made, stat), 0);
  for (Inode* each : {root, snap, made}) (*native)->Put(each);
}

// Makes the file that a server leaves if it is killed in an exclusive Create for `caller`.
void LeaveUnfinished(const Location& location, const Credentials& caller, const std::string& name,
                     std::optional<uint64_t> verifier) {
  const auto client = MountClient(location, std::chrono::seconds(30));
  ASSERT_TRUE(client) << client.error().message;
  Inode *root = nullptr, *made = nullptr;
  OpenFile* file = nullptr;
  Stat stat;
  ASSERT_GE((*client)->Root(root), 0);
  ASSERT_GE((*client)->Create(caller, root, name, 01000, made, file, stat), 0);
  (*client)->Close(file);
  if (verifier) {
    std::array<std::byte, 8> octets;
    StoreBig<uint64_t>(octets.data(), *verifier);
    ASSERT_GE((*client)->SetXattr(kAsRoot, made, "trusted.penstock.create-verifier", octets, XATTR_CREATE), 0);
  }
  (*client)->Put(made);
  (*client)->Put(root);
}

TEST_F(ClusterTest, AnExclusiveCreateThatAKilledServerBeganIsFinishedByTheNextAttempt) {
  const RequestContext alice{{1001, 1001, {}}, &loop_}, bob{{1002, 1002, {}}, &loop_};
  LeaveUnfinished(location_, alice.credentials, "created", std::nullopt);
  LeaveUnfinished(location_, alice.credentials, "with verifier", 1);
  const auto fs = Serve();
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.attributes.mode = 0444;
  for (const char* name : {"created", "with verifier"}) {
    const auto create = [&](const RequestContext& by, uint64_t verifier) {
      how.verifier = CreateVerifier(verifier);
      return Await(fs->Create(by, fs->Root(), name, how)).result;
    };
    EXPECT_EQ(suite::ErrorOf(create(bob, 2)), Error::kExist) << name << ": it is not his";
    const Result<Node> made = create(alice, 1);
    ASSERT_TRUE(made) << name << ": " << fs::ToString(made.error());
    EXPECT_EQ(made->attributes.mode, 0444u) << name;
    EXPECT_TRUE(create(alice, 1)) << name;
    EXPECT_EQ(suite::ErrorOf(create(alice, 3)), Error::kExist) << name;
  }
}

// libcephfs would wait for ever when it meets the new name.
TEST_F(ClusterTest, AfterARenameThatAnotherServerWasFasterThanTheNewNameCanBeUsed) {
  const auto one = Serve(), two = Serve();
  for (const std::string name : {"new", "existing"}) {
    ASSERT_TRUE(Create(*one, "source", {}).result);
    if (name == "existing") ASSERT_TRUE(Create(*one, name, {}).result);
    ASSERT_TRUE(Await(two->Lookup(root_, two->Root(), "source")).result);
    (void)Await(two->Lookup(root_, two->Root(), name));
    ASSERT_TRUE(Await(one->Remove(root_, one->Root(), "source")).result);
    EXPECT_EQ(suite::ErrorOf(Await(two->Rename(root_, two->Root(), "source", two->Root(), name)).result),
              Error::kNoEnt);
    EXPECT_TRUE(Create(*two, name, {}).result);
  }
}

TEST_F(ClusterTest, AfterARenameThatIsRefusedTheNamesCanBeUsed) {
  const auto fs = Serve();
  const Handle directory = Await(fs->MakeDirectory(root_, fs->Root(), "directory", {})).result.value().handle;
  EXPECT_FALSE(Await(fs->Rename(root_, fs->Root(), "directory", directory, "inner")).result);
  EXPECT_EQ(suite::ErrorOf(Await(fs->Lookup(root_, directory, "inner")).result), Error::kNoEnt);
  EXPECT_TRUE(Await(fs->Create(root_, directory, "inner", {})).result);
  EXPECT_FALSE(Await(fs->Rename(root_, directory, "inner", fs->Root(), "directory")).result);
  EXPECT_TRUE(Await(fs->Lookup(root_, fs->Root(), "directory")).result);
}

// RFC 1813 §3.3.8: the client then sets the times.
TEST_F(ClusterTest, AVerifierCountsUntilTheFileIsWrittenOrItsTimesAreSet) {
  const auto one = Serve(), two = Serve();
  CreateHow how;
  how.mode = CreateMode::kExclusive;
  how.verifier = CreateVerifier(7);
  const Handle file = Create(*one, "times", how).result.value().handle;
  ASSERT_TRUE(Create(*two, "times", how).result);
  NewAttributes times;
  times.mtime = {SetTime::How::kServerTime, {}};
  ASSERT_TRUE(Await(one->SetAttributes(root_, file, times, std::nullopt)).result);
  EXPECT_EQ(suite::ErrorOf(Create(*two, "times", how).result), Error::kExist);
  const Handle written = Create(*one, "written", how).result.value().handle;
  ASSERT_TRUE(Write(*one, written, 0, "x").result);
  EXPECT_EQ(suite::ErrorOf(Create(*two, "written", how).result), Error::kExist);
}

TEST_F(ClusterTest, AnEmptyFileWithAStickyBitIsNoUnfinishedOne) {
  const auto fs = Serve();
  CreateHow how;
  how.attributes.mode = 01600;
  ASSERT_TRUE(Create(*fs, "file", how).result);
  how.mode = CreateMode::kExclusive;
  EXPECT_EQ(suite::ErrorOf(Create(*fs, "file", how).result), Error::kExist);
}

TEST_F(ClusterTest, AnyCreateFinishesAnUnfinishedFile) {
  LeaveUnfinished(location_, kAsRoot, "file", std::nullopt);
  const auto fs = Serve();
  CreateHow how;
  how.attributes.mode = 0640;
  const auto made = Create(*fs, "file", how);
  ASSERT_TRUE(made.result);
  EXPECT_EQ(made.result->attributes.mode, 0640u);
}

TEST_F(ClusterTest, OneOfManyCallersGetsAnUnfinishedFile) {
  std::vector<std::shared_ptr<FileSystem>> servers{Serve(), Serve(), Serve(), Serve()};
  for (int round = 0; round < 20; ++round) {
    const std::string name = "file" + std::to_string(round);
    LeaveUnfinished(location_, kAsRoot, name, std::nullopt);
    size_t answers = 0, successes = 0;
    const auto create = [&](FileSystem& fs, uint64_t verifier) -> Task<> {
      CreateHow how;
      how.mode = CreateMode::kExclusive;
      how.verifier = CreateVerifier(verifier);
      const auto made = co_await fs.Create(root_, fs.Root(), name, how);
      ++answers;
      if (made.result) ++successes;
      if (!made.result) EXPECT_EQ(made.result.error(), Error::kExist);
    };
    for (size_t i = 0; i < 8; ++i) Spawn(create(*servers[i % 4], i));
    while (answers < 8) loop_.context().run_one();
    EXPECT_EQ(successes, 1u);
  }
}

TEST_F(ClusterTest, OneOfManyCallersCreatesAFileExclusively) {
  std::vector<std::shared_ptr<FileSystem>> servers{Serve(), Serve(), Serve(), Serve()};
  for (int round = 0; round < 20; ++round) {
    const std::string name = "file" + std::to_string(round);
    std::map<uint64_t, size_t> successes;  // by the verifier
    size_t answers = 0;
    const auto create = [&](FileSystem& fs, uint64_t verifier) -> Task<> {
      CreateHow how;
      how.mode = CreateMode::kExclusive;
      how.verifier = CreateVerifier(verifier);
      const auto made = co_await fs.Create(root_, fs.Root(), name, how);
      ++answers;
      if (made.result) ++successes[verifier];
      if (!made.result) EXPECT_EQ(made.result.error(), Error::kExist);
    };
    // Each caller asks two servers, as one whose first reply is late.
    for (size_t i = 0; i < 8; ++i) Spawn(create(*servers[i % 4], i / 2));
    while (answers < 8) loop_.context().run_one();
    ASSERT_EQ(successes.size(), 1u);
    EXPECT_EQ(successes.begin()->second, 2u);
  }
}

TEST_F(ClusterTest, AFileOfAnExclusiveCreateHasTheModeThatTheDirectorysDefaultListGives) {
  const auto fs = Serve();
  NewAcls acls;
  acls.defaults = AclOfMode(0750);
  ASSERT_TRUE(Await(fs->SetAcls(root_, fs->Root(), acls)).result);
  CreateHow how;
  how.attributes.mode = 0666;
  how.attributes.umask = 077;
  const auto plain = Create(*fs, "plain", how);
  how.mode = CreateMode::kExclusive;
  const auto exclusive = Create(*fs, "exclusive", how);
  ASSERT_TRUE(plain.result && exclusive.result);
  EXPECT_EQ(plain.result->attributes.mode, 0640u);
  EXPECT_EQ(exclusive.result->attributes.mode, 0640u);
}

TEST_F(ClusterTest, AFileThatOneServerRemovesIsStaleAtTheOther) {
  const auto one = Serve(), two = Serve();
  const Handle file = Create(*one, "file", {}).result->handle;
  ASSERT_TRUE(Await(two->GetAttributes(root_, file)));
  ASSERT_TRUE(Await(one->Remove(root_, one->Root(), "file")).result);
  EXPECT_EQ(suite::ErrorOf(Await(two->GetAttributes(root_, file))), Error::kStale);
}

TEST_F(ClusterTest, APinnedFileOutlivesItsRemovalByAnotherServer) {
  const auto one = Serve(), two = Serve();
  const Handle file = Create(*one, "file", {}).result->handle;
  ASSERT_TRUE(Write(*one, file, 0, "text").result);
  {
    const Result<Pinned> pinned = Await(one->Pin(root_, file));
    ASSERT_TRUE(pinned);
    ASSERT_TRUE(Await(two->Remove(root_, two->Root(), "file")).result);
    EXPECT_EQ(Read(*one, file), "text");
  }
  EXPECT_EQ(suite::ErrorOf(Await(one->GetAttributes(root_, file))), Error::kStale);
}

TEST_F(ClusterTest, SnapshotsCanBeReadAndNotChanged) {
  const auto fs = Serve();
  const Handle file = Create(*fs, "file", {}).result->handle;
  ASSERT_TRUE(Write(*fs, file, 0, "old").result);
  const auto snapshots = Await(fs->Lookup(root_, fs->Root(), ".snap"));
  ASSERT_TRUE(snapshots.result);
  const Handle directory = snapshots.result->handle;
  EXPECT_EQ(suite::ErrorOf(Await(fs->MakeDirectory(root_, directory, "s", {})).result), Error::kReadOnly);
  ASSERT_TRUE(Await(fs->Commit(root_, file)).result);
  TakeSnapshot(location_, "s");
  const auto snapshot = Await(fs->Lookup(root_, directory, "s"));
  ASSERT_TRUE(snapshot.result) << fs::ToString(snapshot.result.error());
  ASSERT_TRUE(Write(*fs, file, 0, "new").result);
  const auto old = Await(fs->Lookup(root_, snapshot.result->handle, "file"));
  ASSERT_TRUE(old.result);
  EXPECT_EQ(Read(*fs, old.result->handle), "old");
  EXPECT_EQ(Read(*fs, file), "new");
  EXPECT_NE(old.result->attributes.fileid, Await(fs->GetAttributes(root_, file))->fileid);
  EXPECT_EQ(suite::ErrorOf(Write(*fs, old.result->handle, 0, "x").result), Error::kReadOnly);
  EXPECT_EQ(suite::ErrorOf(Await(fs->Create(root_, snapshot.result->handle, "x", {})).result), Error::kReadOnly);
  const AccessMask rights = *Await(fs->Access(root_, old.result->handle, ~0u)).result;
  EXPECT_EQ(rights & (kAccessModify | kAccessExtend | kAccessXattrWrite), 0u);
  const auto other = Serve();
  for (const Handle& each : {directory, snapshot.result->handle, old.result->handle}) {
    const auto stat = Await(other->GetAttributes(root_, each));
    EXPECT_TRUE(stat) << "another server has not seen it before: " << fs::ToString(stat.error());
    if (stat) EXPECT_EQ(stat->fileid, Await(fs->GetAttributes(root_, each))->fileid);
  }
  EXPECT_EQ(Read(*other, old.result->handle), "old");
  EXPECT_EQ(Await(fs->Lookup(root_, directory, "..")).result->handle, fs->Root());
  EXPECT_EQ(Await(fs->Lookup(root_, snapshot.result->handle, "..")).result->handle, directory);
  EXPECT_EQ(suite::ErrorOf(Await(fs->RemoveDirectory(root_, directory, "s")).result), Error::kReadOnly);
}

TEST_F(ClusterTest, AParentOutsideTheExportIsNotShown) {
  const auto fs = Serve();
  const Handle directory = Await(fs->MakeDirectory(root_, fs->Root(), "directory", {})).result->handle;
  auto outside = FileSystem::Open({.path = "/", .conf = Conf()}, TheModule(), {.export_name = "/all"});
  ASSERT_TRUE(outside) << outside.error().message;
  FileSystem& all = **outside;
  const std::string name = location_.path.substr(1);
  const Handle exported = Await(all.Lookup(root_, all.Root(), name)).result->handle;
  ASSERT_TRUE(Await(all.Rename(root_, exported, "directory", all.Root(), name + "-moved")).result);
  // The first server may still know the old parent.
  const auto parent = Await(fs->Lookup(root_, directory, ".."));
  if (parent.result) EXPECT_EQ(parent.result->handle, fs->Root());
  const auto other = Serve();
  EXPECT_EQ(suite::ErrorOf(Await(other->Lookup(root_, directory, "..")).result), Error::kStale);
}

TEST_F(ClusterTest, ADirectoryThatAnotherExportServesCannotBeReached) {
  const auto alone = Serve();
  const auto make = [&](const Handle& parent, std::string_view name) {
    return Await(alone->MakeDirectory(root_, parent, name, {})).result.value().handle;
  };
  const Handle a = make(alone->Root(), "a"), b = make(a, "b"), below = make(b, "below");
  make(a, "other");
  const Handle file = Await(alone->Create(root_, b, "file", {})).result.value().handle;
  auto opened = FileSystem::Open(location_, TheModule(), {.export_name = "/export", .others = {"a/b", "a/missing"}});
  ASSERT_TRUE(opened) << opened.error().message;
  FileSystem& fs = **opened;
  for (const Handle& each : {a, b, below, file}) {
    EXPECT_EQ(suite::ErrorOf(Await(fs.GetAttributes(root_, each))), Error::kStale) << "given before";
  }
  const Handle parent = Await(fs.Lookup(root_, fs.Root(), "a")).result.value().handle;
  EXPECT_EQ(suite::ErrorOf(Await(fs.Lookup(root_, parent, "b")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(fs.RemoveDirectory(root_, parent, "b")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(fs.Rename(root_, parent, "b", parent, "mine")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(fs.Rename(root_, parent, "other", parent, "b")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(fs.Rename(root_, parent, "other", parent, "missing")).result), Error::kCovered);
  for (const char* name : {"b", "missing"}) {
    EXPECT_EQ(suite::ErrorOf(Await(fs.MakeDirectory(root_, parent, name, {})).result), Error::kCovered);
    EXPECT_EQ(suite::ErrorOf(Await(fs.Create(root_, parent, name, {})).result), Error::kCovered);
  }
  suite::Collector collector(10);
  ASSERT_TRUE(
      Await(fs.ReadDirectory(root_, parent, {.cookie = Cookie(0), .verifier = {}, .with_nodes = true}, collector))
          .result);
  for (const auto& entry : collector.entries) {
    if (entry.name == "b") EXPECT_FALSE(entry.handle);
    if (entry.name == "other") EXPECT_TRUE(entry.handle);
  }
  EXPECT_EQ(collector.entries.size(), 4u) << "with . and ..";
  // Wherever the cluster's other clients move it, and whatever they put in its place.
  ASSERT_TRUE(Await(alone->Rename(root_, a, "b", alone->Root(), "moved")).result);
  ASSERT_TRUE(Await(alone->Rename(root_, a, "other", a, "b")).result);
  EXPECT_EQ(suite::ErrorOf(Await(fs.Lookup(root_, fs.Root(), "moved")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(fs.Lookup(root_, parent, "b")).result), Error::kCovered);
}

TEST_F(ClusterTest, ADirectoryThatAnotherExportServesCannotBeReachedInASnapshot) {
  const auto alone = Serve();
  ASSERT_TRUE(Await(alone->MakeDirectory(root_, alone->Root(), "covered", {})).result);
  TakeSnapshot(location_, "s");
  auto opened = FileSystem::Open(location_, TheModule(), {.export_name = "/export", .others = {"covered"}});
  ASSERT_TRUE(opened) << opened.error().message;
  FileSystem& fs = **opened;
  const Handle snapshots = Await(fs.Lookup(root_, fs.Root(), ".snap")).result.value().handle;
  const Handle snapshot = Await(fs.Lookup(root_, snapshots, "s")).result.value().handle;
  EXPECT_EQ(suite::ErrorOf(Await(fs.Lookup(root_, snapshot, "covered")).result), Error::kCovered);
  const Handle old = Await(alone->Lookup(root_, alone->Root(), ".snap")).result.value().handle;
  EXPECT_EQ(suite::ErrorOf(Await(fs.GetAttributes(root_, old))), Error::kStale) << "given before";
  suite::Collector collector(10);
  ASSERT_TRUE(
      Await(fs.ReadDirectory(root_, snapshot, {.cookie = Cookie(0), .verifier = {}, .with_nodes = true}, collector))
          .result);
  ASSERT_EQ(collector.entries.size(), 3u);
  EXPECT_FALSE(collector.entries[2].handle) << collector.entries[2].name;
}

TEST_F(ClusterTest, AReloadCoversWhatWasMadeMeanwhile) {
  ServedDirectories directories([]() -> SetupResult<Module*> { return &TheModule(); });
  const Location inner{.path = location_.path + "/x/b", .conf = Conf(), .fs = "cephfs"};
  const std::vector<DirectoryToServe> both{{"/a", location_}, {"/b", inner}};
  const auto first = directories.Open(both);
  ASSERT_TRUE(first[0]);
  EXPECT_FALSE(first[1]) << "it is not there yet";
  FileSystem& outer = **first[0];
  EXPECT_EQ(suite::ErrorOf(Await(outer.MakeDirectory(root_, outer.Root(), "x", {})).result), Error::kCovered);
  const auto native = Serve();
  const Handle x = Await(native->MakeDirectory(root_, native->Root(), "x", {})).result.value().handle;
  ASSERT_TRUE(Await(native->MakeDirectory(root_, x, "b", {})).result);
  const auto second = directories.Open(both);
  ASSERT_TRUE(second[0] && second[1]) << "the file system is known by two names";
  EXPECT_NE(*second[0], *first[0]);
  FileSystem& again = **second[0];
  EXPECT_EQ(again.Root(), outer.Root()) << "the same paths are covered";
  const Handle parent = Await(again.Lookup(root_, again.Root(), "x")).result.value().handle;
  EXPECT_EQ(suite::ErrorOf(Await(again.Lookup(root_, parent, "b")).result), Error::kCovered);
  EXPECT_EQ(suite::ErrorOf(Await(again.Rename(root_, again.Root(), "x", again.Root(), "y")).result), Error::kCovered);
  const auto third = directories.Open(std::vector<DirectoryToServe>{both[1], both[0]});
  EXPECT_EQ(*third[1], *second[0]);
  EXPECT_EQ(*third[0], *second[1]);
}

TEST_F(ClusterTest, AServerThatTheMdsEvictsMountsAgain) {
  const auto fs = Serve();
  const Handle file = Create(*fs, "file", {}).result->handle;
  ASSERT_TRUE(Write(*fs, file, 0, "stable").result);
  const auto committed = Await(fs->Commit(root_, file));
  ASSERT_TRUE(committed.result);
  Result<Pinned> pinned = Await(fs->Pin(root_, file));
  ASSERT_TRUE(pinned);
  const std::string evict =
      "ceph -c " + Conf() + " tell mds.0 client evict client_metadata.root=" + location_.path + " >/dev/null 2>&1";
  ASSERT_EQ(std::system(evict.c_str()), 0);
  // Until the client has noticed, it may answer from its cache.
  Changed<WriteReply> wrote = Write(*fs, file, 6, " and new");
  Result<WriteVerifier> again = std::unexpected(Error::kDelay);
  while (!wrote.result || !again || *again == *committed.result) {
    if (!wrote.result) ASSERT_EQ(wrote.result.error(), Error::kDelay) << fs::ToString(wrote.result.error());
    wrote = Write(*fs, file, 6, " and new");
    again = Await(fs->Commit(root_, file)).result;
  }
  EXPECT_EQ(Read(*fs, file), "stable and new");
}

TEST_F(ClusterTest, AQuotaOfADirectoryLimitsItsFiles) {
  const auto fs = Serve();
  const auto client = MountClient({.path = "/", .conf = Conf()}, std::chrono::seconds(30));
  ASSERT_TRUE(client) << client.error().message;
  Inode *root = nullptr, *directory = nullptr;
  Stat stat;
  ASSERT_GE((*client)->Root(root), 0);
  ASSERT_GE((*client)->Lookup(kAsRoot, root, location_.path.substr(1), directory, stat), 0);
  ASSERT_GE((*client)->SetXattr(kAsRoot, directory, "ceph.quota.max_bytes", AsBytes("4194304"), 0), 0);
  (*client)->Put(directory);
  (*client)->Put(root);
  const Handle file = Create(*fs, "file", {}).result->handle;
  const std::string megabyte(1 << 20, 'x');
  std::optional<Error> error;
  for (uint64_t i = 0; i < 64 && !error; ++i) {
    const auto wrote =
        Await(fs->Write(root_, file, i << 20, Data(Slice::Borrowed(AsBytes(megabyte))), Stability::kFileSync));
    error = suite::ErrorOf(wrote.result);
  }
  EXPECT_EQ(error, Error::kQuota);
  EXPECT_EQ(Await(fs->GetSpace(root_, fs->Root())).result->total_bytes, 4u << 20);
}

// Cookies come from clients, which may send any number.
TEST_F(ClusterTest, EveryCookieIsAPositionOrRefused) {
  const auto fs = Serve();
  for (int i = 0; i < 20; ++i) Create(*fs, "file" + std::to_string(i), {});
  uint64_t cookie = 1;
  for (int i = 0; i < 2000; ++i) {
    cookie = cookie * 0x9e3779b97f4a7c15u + 1;
    const uint64_t sent = i % 2 == 0 ? cookie : (uint64_t{0xff} << 52) | (cookie >> 12);
    suite::Collector collector(5);
    const auto listed =
        Await(fs->ReadDirectory(root_, fs->Root(), {.cookie = Cookie(sent), .verifier = {}}, collector));
    if (!listed.result) EXPECT_EQ(listed.result.error(), Error::kBadCookie) << std::hex << sent;
  }
}

TEST_F(ClusterTest, ReportsMistakesOfALocation) {
  const auto error = [](const Location& location) {
    const auto opened = FileSystem::Open(location, TheModule(), {.export_name = "/x"});
    return opened ? std::string() : opened.error().message;
  };
  using testing::HasSubstr;
  EXPECT_THAT(error({.path = "/missing", .conf = Conf()}), HasSubstr("no directory /missing"));
  EXPECT_THAT(error({.path = "/", .conf = "/missing.conf"}), HasSubstr("cannot be read"));
  EXPECT_THAT(error({.path = "/", .conf = Conf(), .fs = "other", .user = {}}), HasSubstr("has no file system other"));
}

const suite::Parameter kCeph{"Ceph", [] { return std::make_unique<CephBackend>(); }};

}  // namespace
}  // namespace penstock::fs::ceph

PENSTOCK_FILE_SYSTEM_SUITE(Cluster, testing::Values(penstock::fs::ceph::kCeph));

namespace penstock::objects::suite {

// A namespace of its own for each test, in a pool of the cluster.
std::shared_ptr<Store> NewPool() {
  static int count = 0;
  const char* conf = std::getenv("CEPH_CONF");
  static const int made = std::system("ceph osd pool create penstock 8 >/dev/null 2>&1");
  EXPECT_EQ(made, 0);
  auto opened = fs::ceph::OpenPool({.name = std::to_string(::getpid()) + "-" + std::to_string(++count),
                                    .conf = conf ? conf : "",
                                    .pool = "penstock"},
                                   std::chrono::seconds(30));
  EXPECT_TRUE(opened) << opened.error().message;
  return *std::move(opened);
}

PENSTOCK_OBJECT_STORE_SUITE(Rados, testing::Values(Parameter{"Rados", &NewPool}));

}  // namespace penstock::objects::suite
